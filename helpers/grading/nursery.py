"""The nursery: a process that has imported torch and the checks, and forks each kernel from itself.

Importing them takes longer than grading most notebooks, so it is done once for a class. Every kernel is a copy of the
nursery's memory, which holds no answer and no reference, in a small world of its own (``helpers.grading.world``).

Runner and nursery speak JSON over a socket in a folder that only the grader's user can open: a request to fork, the
kernel's process number, at last its exit status. Whoever hangs up ends the kernel.
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
from collections.abc import Callable, Mapping
from pathlib import Path

from helpers.grading import world

ALWAYS = ("ipykernel.ipkernel", "ipykernel.kernelapp")
WITH_TORCH = ("torch._dynamo", "torch.testing._internal.optests", "scipy.special")
"""What the checks import when they first need it."""

MOST_BYTES = 200_000  # of one message


# -- in the grader -------------------------------------------------------------------------------------------------


class Nursery:
    """A running nursery, with the ``address`` at which it takes requests."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.owner, self.folder, self.address = os.getpid(), folder, str(folder / "nursery")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.address)
            listener.listen(64)
            self.process = subprocess.Popen(
                [*world.master(), sys.executable, "-m", "helpers.grading.nursery", str(listener.fileno())],
                stdin=subprocess.PIPE,  # its end tells the nursery that the grader is gone
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


_running: list[Nursery] = []
_lock = threading.Lock()


def address(prefix: str, environment: Callable[[Path], Mapping[str, str]]) -> str:
    """The address of this process's nursery, which is started when there is none.

    Args:
        prefix: how the name of its folder begins.
        environment: gives the environment variables of a process that works in a folder.
    """
    with _lock:
        if not _running or not _running[-1].alive:
            folder = Path(tempfile.mkdtemp(prefix=prefix))
            _running[:] = [Nursery(folder, environment(folder))]
        return _running[-1].address


def close() -> None:
    """End this process's nursery; the next kernel gets a new one."""
    with _lock:
        while _running:
            _running.pop().close()


class ForkedKernel:
    """A kernel forked by a nursery, with what jupyter_client uses of :class:`subprocess.Popen`.

    Raises:
        RuntimeError: the nursery could not fork it; the message says why.
    """

    stdin = stdout = stderr = None

    def __init__(self, address: str, request: Mapping[str, object]) -> None:
        self.returncode: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(address)
        self._socket.send(json.dumps(request).encode())
        answer = json.loads(self._socket.recv(MOST_BYTES) or '{"error": "the nursery is gone"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        self.pid: int = answer["pid"]

    def poll(self) -> int | None:
        """Its exit status; ``None`` while it runs."""
        if self.returncode is None and select.select([self._socket], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit status."""
        if self.returncode is None:
            self._socket.settimeout(timeout)
            answer = self._socket.recv(MOST_BYTES)
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


# -- in the nursery ------------------------------------------------------------------------------------------------


def _load(modules: list[str]) -> None:
    for names in (ALWAYS, modules, WITH_TORCH):
        if names is WITH_TORCH and "torch" not in sys.modules:
            continue
        for name in names:
            with contextlib.suppress(Exception):  # the kernel will meet it again, and tell
                importlib.import_module(name)


def _guard(connection: socket.socket, request: dict) -> None:
    """Fork one kernel into a world of its own, watch over it, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        with world.joined(Path(request["scratch"])):
            kernel = os.fork()
            if kernel == 0:
                _become_kernel(request)
            connection.send(json.dumps({"pid": kernel}).encode())
            over = os.pidfd_open(kernel)
            if connection in select.select([over, connection], [], [])[0]:  # the runner hung up
                os.kill(kernel, signal.SIGKILL)
            status = world.status_of(kernel)
        connection.send(json.dumps({"status": status}).encode())
    except OSError as error:
        with contextlib.suppress(OSError):
            connection.send(json.dumps({"error": str(error)}).encode())


def _become_kernel(request: dict) -> None:
    """Turn this process into the kernel; it does not return."""
    try:
        limits = {int(number): most for number, most in request["limits"].items()}
        world.enter(Path(request["scratch"]), request["uid"], limits)
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
    listener = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the guards
    while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
        if not ready:
            continue
        connection, _ = listener.accept()
        with connection:
            request = json.loads(connection.recv(MOST_BYTES) or "null")
            if request is None:
                continue
            _load(request["modules"])
            if os.fork() == 0:
                listener.close()
                _guard(connection, request)
                os._exit(0)


if __name__ == "__main__":
    main()
