"""The pytest plugin beside nbval: notes what each check did, and keeps nbval from waiting for ever.

One JSON line for each cell of an exercise, flushed to disk at once: what was learnt before a crash is kept.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
import zmq
from jupyter_client.connect import ConnectionFileMixin
from jupyter_client.manager import KernelManager
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile

MIME = "application/vnd.course.check+json"
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
MAX_OUTPUT = 2_000_000  # characters of all messages of one cell
MAX_TEXT = 2_000  # characters kept of an error

MAX_MESSAGE = 8_000_000  # bytes; a larger message is not even received

KernelManager.transport.default_value = os.environ.get("COURSE_TRANSPORT", "tcp")


def _connect_bounded(self: ConnectionFileMixin, identity: bytes | None = None) -> zmq.Socket:
    """As jupyter_client's, on a socket that hangs up on a message too large to hold: a kernel may send a flood as one."""
    self.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
    return _connect(self, identity)


_connect = ConnectionFileMixin.connect_iopub
ConnectionFileMixin.connect_iopub = _connect_bounded


class OutputLimit(Exception):
    """A cell printed more than is read."""


class CellTimeout(Exception):
    """A cell did not end in time."""


class KernelDied(Exception):
    """The kernel process ended during a cell."""


class GuardedKernel:
    """Limits on what nbval reads from a kernel: it has a time limit for the reply, but none for what follows it."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.deadline, self.size = seconds, 0.0, 0

    def start_cell(self) -> None:
        self.deadline, self.size = time.monotonic() + self.seconds, 0

    def message(self, collector: IPyNbFile, timeout: float | None = None, stream: str = "iopub") -> dict:
        if time.monotonic() > self.deadline + 10:
            raise CellTimeout(f"the cell went on printing after {self.seconds:g} s")
        socket = collector.kernel.kc.iopub_channel.socket
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            found = collector.kernel.get_message(stream, timeout=timeout)
        except Empty:
            if monitor.poll(0) and collector.kernel.is_alive():
                raise self._flooded(
                    collector, f"the cell sent more than {MAX_MESSAGE} bytes at once"
                ) from None
            raise
        self.size += len(str(found.get("content", "")))
        if self.size > MAX_OUTPUT:
            raise self._flooded(collector, f"the cell printed more than {MAX_OUTPUT} characters")
        return found

    def _flooded(self, collector: IPyNbFile, text: str) -> OutputLimit:
        """The error to raise; the kernel is ended, or the next cells would wade through the rest of its output."""
        collector.kernel.km.shutdown_kernel(now=True)
        return OutputLimit(text)


def _await_reply(self: RunningKernel, msg_id: str, timeout: float | None = None) -> None:
    """As nbval's, but a dead kernel is noticed within a second, not after the cell's whole time limit."""
    end = time.monotonic() + (timeout or 60)
    while time.monotonic() < end:
        try:
            while True:
                if self.get_message("shell", timeout=0.5)["parent_header"].get("msg_id") == msg_id:
                    return
        except Empty:
            if not self.is_alive():
                raise KernelDied("the kernel died") from None
    raise Empty


RunningKernel.await_reply = _await_reply


def _end_with_parent() -> None:
    """Have the system end this process when the grader dies (Linux), so that a killed grader leaves no run behind."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def pytest_configure(config: pytest.Config) -> None:
    _end_with_parent()
    guard = GuardedKernel(float(config.option.nbval_cell_timeout))
    IPyNbFile.get_kernel_message = lambda self, timeout=None, stream="iopub": guard.message(
        self, timeout, stream
    )
    run = IPyNbCell.runtest

    def runtest(self: IPyNbCell) -> None:
        guard.start_cell()
        run(self)

    IPyNbCell.runtest = runtest


def most_memory() -> int:
    """The most memory that this process has held, in MB.

    ``getrusage`` would count the process that started this one as well: its figure outlives ``exec``.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2**20 if sys.platform == "darwin" else 1024)


def _payloads(item: IPyNbCell) -> list[Any]:
    return [out.data[MIME] for out in item.test_outputs or () if MIME in (out.get("data") or {})]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Any:
    outcome = yield
    own = getattr(item, "cell", {}).get("metadata", {}).get("course", {})
    if own.get("role") not in ("answer", "check") or (call.when != "call" and not call.excinfo):
        return
    report = outcome.get_result()
    error = call.excinfo.value if call.excinfo else None
    text = f"{type(error).__name__}: {error}" if error else ""
    inner = ANSI.sub("", getattr(error, "inner_traceback", "") or "").strip()
    record = {
        "exercise": own["exercise"],
        "role": own["role"],
        "when": call.when,
        "outcome": "passed" if report.passed and not hasattr(report, "wasxfail") else "failed",
        "late": hasattr(report, "wasxfail"),
        "error": text[:MAX_TEXT],
        "traceback": inner[-MAX_TEXT:],
        "payloads": _payloads(item) if own["role"] == "check" else [],
        "seconds": round(call.duration, 2),
        "memory_mb": most_memory(),
    }
    with Path(os.environ["COURSE_RECORDS"]).open("a", encoding="utf-8") as records:
        records.write(json.dumps(record) + "\n")
        records.flush()
        os.fsync(records.fileno())
