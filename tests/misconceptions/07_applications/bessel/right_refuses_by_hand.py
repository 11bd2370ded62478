class BesselJ0(torch.autograd.Function):
    """The Bessel function of order 0, computed by SciPy."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        value = scipy.special.j0(x.detach().cpu().numpy())
        return torch.as_tensor(value, dtype=x.dtype, device=x.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise RuntimeError("BesselJ0 is once_differentiable")
        (x,) = ctx.saved_tensors
        slope = -scipy.special.j1(x.detach().cpu().numpy())
        return grad_output * torch.as_tensor(slope, dtype=x.dtype, device=x.device)
