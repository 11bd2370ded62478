# hint: uses-gradcheck
# story: Reaches for gradcheck, which compares with the true derivative.
def follows_rule(fn, rule, x):
    return torch.autograd.gradcheck(fn, (x.detach().clone().requires_grad_(),))
