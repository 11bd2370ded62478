# hint: cubed-keeps-x-on-ctx
# story: Keeps the input as an attribute: it works until somebody changes the input.
Sine = Product = RowScale = Cubed = Root = Mean = ...

class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * x.cos()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return grad_output * b, grad_output * a


class RowScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, s: Tensor) -> Tensor:
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, s = ctx.saved_tensors
        return grad_output * s, (grad_output * x).sum(0)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.x = x
        return x**3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output * 3 * ctx.x**2


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        y = x.sqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        is_zero = y == 0
        safe = torch.where(is_zero, torch.ones_like(y), y)
        return torch.where(is_zero, torch.zeros_like(y), grad_output / (2 * safe))


class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return x.mean()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return (grad_output / ctx.shape.numel()).expand(ctx.shape)
