"""Overflow on the way to a moderate number."""

import torch


def sick():
    def log_sum_exp(x):
        return x.exp().sum().log()

    return log_sum_exp, (torch.tensor([1000.0, 0.0], dtype=torch.double, requires_grad=True),)


def cured():
    def log_sum_exp(x):
        return torch.logsumexp(x, 0)

    return log_sum_exp, (torch.tensor([1000.0, 0.0], dtype=torch.double, requires_grad=True),)
