# hint: function-cuts-the-edge
# story: Detaches after the Function, for good measure.
stop_by_detach = stop_by_function = stop_by_no_grad = ...

def stop_by_detach(x: Tensor) -> Tensor:
    return x.detach()


class ZeroGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return torch.zeros_like(grad_output)


def stop_by_function(x: Tensor) -> Tensor:
    return ZeroGradient.apply(x).detach()


def stop_by_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x.clone()
