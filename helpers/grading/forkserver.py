"""Nurseries: processes that have imported what their children need, and fork each of them from themselves.

Importing torch, the checks, pytest and nbval takes longer than grading most notebooks, so it is done once for a class.
There are two. From the one for ``pytest`` come the trusted processes that run notebooks. From the one for ``kernel`` come
the kernels: each is a copy of its memory, which holds no answer and no reference, in a small sandbox of its own
(``helpers.grading.sandbox``).

One speaks with a forkserver in JSON, over a socket in a folder that only the grader's user can open: a request to fork, the
child's process number, at last its exit status. Whoever hangs up ends the child.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import sandbox

# What each child would import on its way to its work, found by comparing ``sys.modules``.
PRELOADED = {
    "kernel": (
        "ipykernel.ipkernel",
        "ipykernel.kernelapp",
        "ipykernel.debugger",
        "IPython.core.completerlib",
        "IPython.extensions.storemagic",
        "IPython.core.debugger",
        "tornado.platform.asyncio",
        "sqlite3",
    ),
    "pytest": (
        "pytest",
        "pytest_timeout",
        "nbval.plugin",
        "helpers.grading.recorder",
        "helpers.grading.kernel",
        "IPython.display",
        "_pytest.faulthandler",
        "_pytest.helpconfig",
        "_pytest.junitxml",
        "_pytest.pastebin",
        "_pytest.setupplan",
        "_pytest.skipping",
        "_pytest.unittest",
        "_pytest.warnings",
    ),
}
WITH_TORCH = ("torch._dynamo", "torch.testing._internal.optests", "scipy.special")
"""What the checks import when they first need it."""

MAX_BYTES = 200_000  # of one message


# -- in the grader -------------------------------------------------------------------------------------------------


class Forkserver:
    """A running forkserver, with the ``address`` at which it takes requests."""

    def __init__(self, role: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.owner, self.folder, self.address = os.getpid(), folder, str(folder / "forkserver")
        before = sandbox.master() if role == "kernel" else []
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.address)
            listener.listen(64)
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "helpers.grading.forkserver", role, str(listener.fileno())],
                stdin=subprocess.PIPE,  # its end tells the forkserver that the grader is gone
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                cwd=folder,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        """Whether it is this process's and takes requests."""
        return self.owner == os.getpid() and self.process.poll() is None

    def close(self) -> None:
        """End it, if it is this process's."""
        if self.owner == os.getpid():
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


_running: dict[str, Forkserver] = {}
_lock = threading.Lock()


def address(role: str, prefix: str, environment: Callable[[Path], Mapping[str, str]]) -> str:
    """The address of this process's forkserver for a role, which is started when there is none.

    Args:
        role: ``"kernel"`` or ``"pytest"``.
        prefix: how the name of its folder begins.
        environment: gives the environment variables of a process that works in a folder.
    """
    with _lock:
        if role not in _running or not _running[role].alive:
            folder = Path(tempfile.mkdtemp(prefix=prefix))
            _running[role] = Forkserver(role, folder, environment(folder))
        return _running[role].address


def close() -> None:
    """End this process's nurseries; the next child gets a new one."""
    with _lock:
        while _running:
            _running.popitem()[1].close()


class Forked:
    """A process forked by a forkserver, with what is used here of :class:`subprocess.Popen`.

    Raises:
        RuntimeError: the forkserver could not fork it; the message says why.
    """

    stdin = stdout = stderr = None

    def __init__(self, address: str, request: Mapping[str, object]) -> None:
        self.returncode: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(address)
        self._socket.send(json.dumps(request).encode())
        answer = json.loads(self._socket.recv(MAX_BYTES) or '{"error": "the forkserver is gone"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        self.pid: int = answer["pid"]

    def poll(self) -> int | None:
        """Its exit status; ``None`` while it runs."""
        if self.returncode is None and select.select([self._socket], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit status.

        Raises:
            TimeoutError: it did not end in ``timeout`` seconds.
        """
        if self.returncode is None:
            self._socket.settimeout(timeout)
            answer = self._socket.recv(MAX_BYTES)
            self.returncode = json.loads(answer)["status"] if answer else -signal.SIGKILL
            self._socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


# -- in the forkserver ------------------------------------------------------------------------------------------------


def _load(role: str, modules: Sequence[str]) -> None:
    for names in (PRELOADED[role], modules, WITH_TORCH):
        if names is WITH_TORCH and "torch" not in sys.modules:
            continue
        for name in names:
            with contextlib.suppress(Exception):  # the child will meet it again, and tell
                importlib.import_module(name)


def _guard(role: str, connection: socket.socket, request: dict) -> None:
    """Fork one child, watch over it, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    become = _become_kernel if role == "kernel" else _become_pytest
    place = sandbox.joined(Path(request["scratch"])) if role == "kernel" else contextlib.nullcontext()
    try:
        with place:
            child = os.fork()
            if child == 0:
                become(request)
            connection.send(json.dumps({"pid": child}).encode())
            over = os.pidfd_open(child)
            if connection in select.select([over, connection], [], [])[0]:  # nobody waits for it any more
                os.kill(child, signal.SIGKILL)
            status = sandbox.status_of(child)
        connection.send(json.dumps({"status": status}).encode())
    except OSError as error:
        with contextlib.suppress(OSError):
            connection.send(json.dumps({"error": str(error)}).encode())


def _become_pytest(request: dict) -> None:
    """Turn this process into one that runs a notebook; it does not return."""
    status = 1
    try:
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, target in ((0, null), (1, log), (2, log)):
            os.dup2(target, number)
        os.closerange(3, 65_536)
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        import pytest

        status = int(pytest.main(request["arguments"]))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _become_kernel(request: dict) -> None:
    """Turn this process into the kernel; it does not return."""
    try:
        limits = {int(number): most for number, most in request["limits"].items()}
        sandbox.enter(Path(request["scratch"]), request["uid"], limits)
        os.environ.clear()
        os.environ.update(request["environment"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tempfile.tempdir = None
        random.seed()
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()
        sys.argv = ["ipykernel_launcher", "-f", request["connection"]]
        from ipykernel.kernelapp import IPKernelApp

        IPKernelApp.launch_instance()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 0)
    except BaseException:
        os._exit(1)
    os._exit(0)


def main() -> None:
    """Take requests until the grader is gone."""
    role, listener = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the guards
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            request = json.loads(connection.recv(MAX_BYTES) or "null")
            if request is None:
                continue
            _load(role, request.get("modules", ()))
            if os.fork() == 0:
                listener.close()
                _guard(role, connection, request)
                os._exit(0)


if __name__ == "__main__":
    main()
