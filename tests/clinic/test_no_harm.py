"""Whatever the Function does, the examination ends, and the caller's world is as it was."""

from __future__ import annotations

import random
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import torch
from torch.autograd import Function

from helpers.clinic import diagnose
from helpers.clinic.guard import TimeUp, time_limit

from .cases.case import noise


def looping(where: str, swallow: bool = False, sleep: bool = False) -> type[Function]:
    """Return a Function that never comes back from forward or backward."""

    def loop():
        while True:
            try:
                while True:
                    time.sleep(60 if sleep else 0)
            except BaseException:
                if not swallow:
                    raise
                swallowed.append(1)
                if len(swallowed) > 2:
                    raise

    swallowed: list[int] = []

    class Loop(Function):
        @staticmethod
        def forward(ctx, x):
            if where == "forward":
                loop()
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            loop()

    return Loop


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize(
    "kind", [{}, {"sleep": True}, {"swallow": True}], ids=["busy", "asleep", "swallowing"]
)
def test_an_endless_loop_is_stopped_and_reported(where, kind):
    started = time.monotonic()
    report = diagnose(looping(where, **kind), noise(2), seconds=0.5)
    assert time.monotonic() - started < 10
    assert "raises" in report.slugs
    assert "did not return within 0.5 s" in report.text()


def test_an_endless_loop_is_stopped_in_another_thread_too():
    reports = []
    thread = threading.Thread(
        target=lambda: reports.append(diagnose(looping("backward"), noise(2), seconds=0.5))
    )
    thread.start()
    thread.join(15)
    assert not thread.is_alive()
    assert "raises" in reports[0].slugs


def test_a_slow_function_is_not_called_endless():
    def slow(x):
        time.sleep(0.05)
        return x * 2

    report = diagnose(slow, noise(3), seconds=1)
    assert report.healthy
    assert any("time limit" in remark for remark in report.remarks)


def test_an_alarm_that_was_set_before_keeps_its_time():
    rung = []
    previous = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    before = signal.getitimer(signal.ITIMER_REAL)
    started = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.6)
        with pytest.raises(TimeUp), time_limit(0.2):
            time.sleep(60)
        while not rung and time.monotonic() - started < 5:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, *before)
    assert rung and rung[0] - started >= 0.55


class Careless(Function):
    """Changes everything that it can reach."""

    count = 0
    names = ["a"]

    @staticmethod
    def forward(ctx, x):
        Careless.count += 1
        Careless.names.append("b")
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        torch.set_default_dtype(torch.float16)
        torch.set_grad_enabled(False)
        torch.autograd.set_detect_anomaly(True)
        warnings.simplefilter("error")
        print("noise on the screen")
        x.data.fill_(7)
        return x * 2

    @staticmethod
    def backward(ctx, grad_output):
        grad_output.zero_()
        return grad_output


def test_the_callers_world_is_as_it_was(capsys):
    x = noise(3)
    x.grad = torch.ones_like(x)
    values, version, grad = x.detach().clone(), x._version, x.grad
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    filters = list(warnings.filters)
    with torch.no_grad():
        report = diagnose(Careless, x)
        assert not torch.is_grad_enabled()
    assert not report.healthy
    assert torch.equal(x, values) and x._version == version
    assert x.grad is grad and torch.equal(grad, torch.ones_like(x))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert (np.random.get_state()[1] == states[2]).all()
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled() and not torch.is_anomaly_enabled()
    assert warnings.filters == filters
    assert (Careless.count, Careless.names) == (0, ["a"])
    assert "noise" not in capsys.readouterr().out
    assert {"inplace-input", "mutable-state"} <= set(report.slugs)


def test_the_methods_of_the_function_are_its_own_again():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2

    before = dict(vars(Plain))
    diagnose(Plain, noise(2))
    assert {name: vars(Plain)[name] for name in before} == before


def test_a_module_keeps_its_parameters_buffers_and_gradients():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    diagnose(module, torch.randn(4, 3, generator=torch.Generator().manual_seed(0)))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert module[0].weight.dtype is torch.float32


@pytest.mark.parametrize(
    "returned",
    [None, "text", 3, [], object(), torch.tensor([1, 2]), (None, None)],
    ids=lambda value: repr(value)[:12],
)
def test_nonsense_is_survived(returned):
    report = diagnose(lambda x: returned, noise(2))
    assert isinstance(report.text(), str) and isinstance(report.html(), str)


@pytest.mark.parametrize("fn", [None, 3, "sin"])
def test_what_cannot_be_called_cannot_be_examined(fn):
    report = diagnose(fn, noise(2))
    assert not report.examined and not report.healthy
    assert "callable" in report.text()


def test_inputs_without_a_tensor_cannot_be_examined():
    report = diagnose(lambda a: a, 3)
    assert not report.examined
    assert "no gradient to examine" in report.text()


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_limit_must_be_positive(seconds):
    with pytest.raises(ValueError, match="seconds"):
        diagnose(torch.sin, noise(2), seconds=seconds)


def test_inference_mode_and_no_grad_of_the_caller_do_not_matter():
    x = noise(3)
    with torch.inference_mode():
        assert diagnose(torch.sin, x).healthy
    assert diagnose(torch.sin, x).healthy


def test_a_small_function_takes_at_most_two_seconds():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad_output

    def spent():
        started = time.process_time()
        assert diagnose(Cube, noise(10, 10)).healthy
        return time.process_time() - started

    assert min(spent() for _ in range(3)) < 2
