"""The questions every lowercase function asks its arguments before it computes anything."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor


def floating(name: str, value: object) -> Tensor:
    """Return ``value`` when it is a tensor that can carry a gradient.

    Raises:
        TypeError: it is no tensor, or its dtype is not a real floating one.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, not {type(value).__name__}; torch.as_tensor makes one.")
    if not value.is_floating_point():
        raise TypeError(
            f"{name} has dtype {value.dtype}, which carries no gradient; use a floating dtype, such as x.float()."
        )
    return value


def same_kind(**tensors: Tensor) -> None:
    """Require one dtype and one device.

    Raises:
        TypeError: the dtypes differ.
        ValueError: the devices differ.
    """
    (first, head), *others = tensors.items()
    floating(first, head)
    for name, tensor in others:
        floating(name, tensor)
        if tensor.device != head.device:
            raise ValueError(
                f"{name} is on {tensor.device}, {first} on {head.device}; move one of them with .to(device)."
            )
        if tensor.dtype != head.dtype:
            raise TypeError(
                f"{name} has dtype {tensor.dtype}, {first} {head.dtype}; convert one of them with .to(dtype)."
            )


def number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    least: float = -math.inf,
    most: float = math.inf,
) -> float:
    """Return a finite number inside ``(above, below)`` and ``[least, most]``.

    Raises:
        TypeError: it is not a real number.
        ValueError: it is NaN, infinite or outside its range.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}.")
    bounds = [
        text
        for bound, text in (
            (above, f"greater than {above:g}"),
            (least, f"at least {least:g}"),
            (below, f"less than {below:g}"),
            (most, f"at most {most:g}"),
        )
        if math.isfinite(bound)
    ]
    if not (math.isfinite(value) and above < value < below and least <= value <= most):
        raise ValueError(f"{name} is {value}; it must be {' and '.join(bounds) or 'finite'}.")
    return float(value)


def dimension(name: str, value: object, tensor: Tensor) -> int:
    """Return a dimension of ``tensor`` as a number from 0 up.

    Raises:
        TypeError: it is not a whole number.
        ValueError: the tensor has no such dimension.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}.")
    rank = tensor.dim()
    if not -rank <= value < rank:
        raise ValueError(
            f"{name} is {value}, but the tensor has shape {tuple(tensor.shape)}: allowed are {-rank} to {rank - 1}."
        )
    return value % rank


def broadcastable(**tensors: Tensor) -> tuple[int, ...]:
    """Return the common shape of tensors that broadcast together.

    Raises:
        ValueError: they do not.
    """
    try:
        return tuple(torch.broadcast_shapes(*(tensor.shape for tensor in tensors.values())))
    except RuntimeError:
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
        raise ValueError(f"these shapes do not broadcast together: {shapes}.") from None
