class BesselJ0(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(scipy.special.j0(x.detach().numpy())).to(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return -torch.from_numpy(scipy.special.j1(x.detach().numpy())).to(x) * grad_output
