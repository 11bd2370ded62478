"""Nothing that a sick Function does may reach the caller: time limit, random state, modes, printed output."""

from __future__ import annotations

import contextlib
import ctypes
import io
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch


class TimeUp(BaseException):
    """The time given to an examination is over.

    Not an ``Exception``: a Function that swallows every exception must not swallow this one.
    """


# A Function may swallow even TimeUp with a bare ``except``; it is raised again this many seconds later.
REPEAT = 0.2


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TimeUp`` in this thread once ``seconds`` are over, also out of ``while True`` loops and sleeps.

    In the main thread a timer signal does it; an alarm that was already set (``pytest-timeout`` sets one)
    keeps its time. In other threads, and on systems without such signals, the interpreter is asked to raise
    it between two bytecodes. Neither can end a call into C that never returns: only ending the process can.
    """
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
        with _alarm(seconds):
            yield
    else:
        with _interruption(seconds):
            yield


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    theirs_due, theirs_every = signal.getitimer(signal.ITIMER_REAL)

    def ring(number: int, frame: object) -> None:
        if theirs_due and time.monotonic() - started >= theirs_due and callable(previous):
            previous(number, frame)
        if time.monotonic() - started >= seconds:
            raise TimeUp

    previous = signal.signal(signal.SIGALRM, ring)
    first = min(seconds, theirs_due) if theirs_due else seconds
    signal.setitimer(signal.ITIMER_REAL, max(first, 1e-3), REPEAT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if theirs_due:
            left = max(theirs_due - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, left, theirs_every)


@contextlib.contextmanager
def _interruption(seconds: float) -> Iterator[None]:
    subject = ctypes.c_ulong(threading.get_ident())
    over = threading.Event()

    def watch() -> None:
        if over.wait(seconds):
            return
        while not over.is_set():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(subject, ctypes.py_object(TimeUp))
            over.wait(REPEAT)

    watchman = threading.Thread(target=watch, daemon=True)
    watchman.start()
    try:
        yield
    finally:
        over.set()
        watchman.join()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(subject, None)


class RandomState:
    """The state of the three global random generators, to be put back as often as needed."""

    def __init__(self) -> None:
        self.torch = torch.get_rng_state()
        self.python = random.getstate()
        self.numpy = np.random.get_state()
        self.all = True

    def restore(self) -> None:
        """Put the generators back to this state."""
        torch.set_rng_state(self.torch)
        if self.all:
            random.setstate(self.python)
            np.random.set_state(self.numpy)

    def moved(self) -> bool:
        """Tell whether somebody has drawn a number since."""
        return not (
            torch.equal(torch.get_rng_state(), self.torch)
            and random.getstate() == self.python
            and all(map(np.array_equal, np.random.get_state(), self.numpy))
        )

    def seed(self, number: int) -> None:
        """Set all three generators to some other state."""
        torch.manual_seed(number)
        random.seed(number)
        np.random.seed(number)


# Global settings that a Function could change: what it would call, and what tells them.
SETTINGS: dict[str, Callable[[], object]] = {
    "torch.set_grad_enabled": torch.is_grad_enabled,
    "torch.set_default_dtype": torch.get_default_dtype,
    "torch.set_num_threads": torch.get_num_threads,
    "torch.autograd.set_detect_anomaly": torch.is_anomaly_enabled,
    "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
}


def modes() -> dict[str, object]:
    """Return the present value of each setting."""
    return {name: tell() for name, tell in SETTINGS.items()}


def restore_modes(before: dict[str, object]) -> list[str]:
    """Put the settings back; return the names of those that had changed."""
    changed = [name for name, value in modes().items() if value != before[name]]
    for name in changed:
        {
            "torch.set_grad_enabled": torch._C._set_grad_enabled,
            "torch.set_default_dtype": torch.set_default_dtype,
            "torch.set_num_threads": torch.set_num_threads,
            "torch.autograd.set_detect_anomaly": torch.set_anomaly_enabled,
            "torch.use_deterministic_algorithms": torch.use_deterministic_algorithms,
        }[name](before[name])
    return changed


@contextlib.contextmanager
def settings_guard() -> Iterator[None]:
    """Leave random state, modes, warning filters and standard output as they were.

    What the examined Function prints or warns is swallowed: it is called several hundred times.
    """
    rng, before = RandomState(), modes()
    quiet = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        warnings.simplefilter("ignore")
        try:
            with torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            rng.restore()
            restore_modes(before)
