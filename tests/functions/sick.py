"""Functions with planted faults, one for each thing the battery must catch, and a healthy one that must pass."""

from __future__ import annotations

import torch

from helpers.functions.contract import Support, Surrogate

FLOATS = (torch.float32, torch.float64)


class Healthy(torch.autograd.Function):
    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "x")

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class WrongFactor(Healthy):
    @staticmethod
    def backward(ctx, grad_output):
        return ctx.saved_tensors[0] * grad_output


class ForgetsUpstream(Healthy):
    @staticmethod
    def backward(ctx, grad_output):
        return 2 * ctx.saved_tensors[0]


class SavesIntermediate(Healthy):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(2 * inputs[0].detach())

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.saved_tensors[0] * grad_output


class AssumesContiguous(Healthy):
    @staticmethod
    def backward(ctx, grad_output):
        flat = torch.as_strided(grad_output, (grad_output.numel(),), (1,)).clone()
        return 2 * ctx.saved_tensors[0] * flat.view(grad_output.shape)


class AssumesContiguousInput(Healthy):
    @staticmethod
    def forward(x):
        return torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) ** 2


class OverwritesUpstream(Healthy):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.mul_(2 * ctx.saved_tensors[0])


class OverwritesInput(Healthy):
    @staticmethod
    def forward(x):
        y = x**2
        x.detach().mul_(2)
        return y


class Random(Healthy):
    @staticmethod
    def backward(ctx, grad_output):
        return 2 * ctx.saved_tensors[0] * grad_output * (1 + 1e-9 * torch.rand_like(grad_output))


class KeepsOutput(Healthy):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.y = output


class KeepsInputInAList(Healthy):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.kept = [inputs[0]]


class KeepsItself(Healthy):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.me = lambda: ctx


class Promotes(Healthy):
    @staticmethod
    def forward(x):
        return (x**2).double()


class CoarseGradient(Healthy):
    @staticmethod
    def backward(ctx, grad_output):
        gradient = 2 * ctx.saved_tensors[0] * grad_output
        return gradient.bfloat16().float() if gradient.dtype == torch.float32 else gradient


class NeedsAnElement(Healthy):
    @staticmethod
    def forward(x):
        x.max()
        return x**2


class Flattens(Healthy):
    @staticmethod
    def forward(x):
        return x.reshape(-1) ** 2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return (2 * x.reshape(-1) * grad_output).reshape(x.shape)


class Unmapped(Healthy):
    generate_vmap_rule = False


class MixesTheBatch(Healthy):
    """Right for one example, wrong for a batch: its rule for ``vmap`` lets the examples see each other."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        return MixesTheBatch.apply(x * x.sum(in_dims[0], keepdim=True)), in_dims[0]


class WrongTangent(Healthy):
    support = Support(True, True, True, False, FLOATS, "x")

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        return ctx.saved_tensors[0] * tangent


class UndeclaredTangent(WrongTangent):
    """Declares no forward mode, and answers all the same, wrongly."""

    support = Support(True, True, False, False, FLOATS, "x")


class BreaksTheGraph(Healthy):
    support = Support(True, False, False, True, FLOATS, "x")

    @staticmethod
    def forward(x):
        if x.sum() > 0:  # a branch on data
            return x**2
        return x * x


class Unrefused(Healthy):
    support = Support(False, True, False, True, FLOATS, "x")


class SwapsGradients(torch.autograd.Function):
    """Gives the gradients in the wrong order when only one of them is asked for."""

    support = Support(True, False, False, False, FLOATS, "a, b")

    @staticmethod
    def forward(a, b):
        return a * b**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        if all(ctx.needs_input_grad):
            return grad_output * b**2, grad_output * 2 * a * b
        return grad_output * 2 * a * b, grad_output * b**2


class BreaksItsRule(Healthy):
    surrogate = Surrogate("grad_input = 3 * grad_output", lambda grads, x: (3 * grads[0],))


class IsNoSurrogate(Healthy):
    surrogate = Surrogate("grad_input = 2 x * grad_output", lambda grads, x: (2 * x * grads[0],))


class RuleHoldsOnce(Healthy):
    """Follows its rule, but hides the dependence on x from the second derivative."""

    surrogate = Surrogate("grad_input = x * grad_output", lambda grads, x: (x * grads[0],))

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.saved_tensors[0].detach() * grad_output
