"""The branch that was not taken."""

import torch


def sick():
    def safe_sqrt(x):
        return torch.where(x > 0, x.sqrt(), torch.zeros_like(x))

    return safe_sqrt, (torch.tensor([0.0, 0.25, 4.0], dtype=torch.double, requires_grad=True),)


def cured():
    def safe_sqrt(x):
        positive = x > 0
        inside = torch.where(positive, x, torch.ones_like(x))
        return torch.where(positive, inside.sqrt(), torch.zeros_like(x))

    return safe_sqrt, (torch.tensor([0.0, 0.25, 4.0], dtype=torch.double, requires_grad=True),)
