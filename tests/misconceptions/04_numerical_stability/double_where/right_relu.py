def safe_sqrt(x):
    return torch.relu(x).sqrt()
