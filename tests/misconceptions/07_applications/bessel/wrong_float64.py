# hint: changes-the-dtype
# story: Computes in float64, and stays there.
class BesselJ0(torch.autograd.Function):
    """The Bessel function of order 0, computed by SciPy."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        value = scipy.special.j0(x.detach().cpu().double().numpy())
        return torch.from_numpy(value)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        slope = -scipy.special.j1(x.detach().cpu().numpy())
        return grad_output * torch.as_tensor(slope, dtype=x.dtype, device=x.device)
