"""The kernel that runs a learner's code: a provisioner that gives it a small, separate world.

With bubblewrap (``bwrap``) the kernel sees the interpreter, the course's package and a scratch folder, and nothing else:
no other submission, no reference, no network, no other process. As root it runs under another user as well. Without
bubblewrap it has its own folder, environment and limits only: *trusted mode*, for work that is not hostile.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.provisioning import LocalProvisioner

FIRST_UID = 61_000
"""Users that no system has, one for each place in which a kernel may run."""

PLACES = 4_000
MOST_PROCESSES = 400
GIGABYTE = 2**30
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/fonts",
)


@contextlib.contextmanager
def place() -> Iterator[int]:
    """A place for one kernel that no other grader on this machine has; its user is ``FIRST_UID`` plus this number.

    Held by a socket with an abstract name: unlike a lock file it leaves nothing behind, and a dead grader frees it.
    """
    if not sys.platform.startswith("linux"):
        yield 0
        return
    for number in range(PLACES):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as held:
            try:
                held.bind(f"\0course-grading-{number}")
            except OSError:
                continue
            yield number
            return
    raise OSError(f"all {PLACES} places for kernels are taken")


def _tasks() -> int:
    """How many threads this user has already: ``RLIMIT_NPROC`` counts them all, not only the kernel's."""
    own, count = os.getuid(), 0
    for each in psutil.process_iter(["uids", "num_threads"]):
        if each.info["uids"] and each.info["uids"].real == own:
            count += each.info["num_threads"] or 0
    return count


@cache
def isolation() -> str:
    """``"isolated"`` where kernels can be closed in, else ``"trusted"``; found out by trying."""
    if not shutil.which("bwrap"):
        return "trusted"
    probe = [*_sandbox(Path("/dev/null").parent / "shm", None), sys.executable, "-c", "import ssl, ipykernel"]
    try:
        found = subprocess.run(probe, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "trusted"
    return "isolated" if found.returncode == 0 else "trusted"


def _readable() -> list[str]:
    """Folders the kernel must be able to read: interpreter, environment, the course's package."""
    package = Path(__file__).resolve().parent.parent
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_paths()["stdlib"], str(package)}
    paths |= {str(Path(sys.executable).resolve().parent.parent)}
    return sorted(path for path in paths if os.path.exists(path))


def _sandbox(scratch: Path, uid: int | None) -> list[str]:
    """The command that opens the small world; what it runs follows.

    The kernel does not get its parent's number: in a world where it is process 1 or 2, it would think the parent gone.
    """
    command = [
        "bwrap",
        "--die-with-parent",
        "--new-session",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-net",
    ]
    command += ["--unsetenv", "JPY_PARENT_PID"]
    for path in SYSTEM:
        if Path(path).is_symlink():
            command += ["--symlink", os.readlink(path), path]
        elif Path(path).exists():
            command += ["--ro-bind", path, path]
    command += [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--size",
        str(GIGABYTE // 2),
        "--tmpfs",
        "/dev/shm",
        "--perms",
        "1777",
    ]
    command += ["--size", str(GIGABYTE // 2), "--tmpfs", "/tmp"]
    # Folders that bubblewrap makes on the way are its user's alone, unless they are made beforehand.
    parents = {parent for path in (*_readable(), str(scratch)) for parent in Path(path).parents[:-1]}
    for parent in sorted(parents - {Path("/tmp"), Path("/dev"), Path("/usr")}):
        command += ["--perms", "0755", "--dir", str(parent)]
    for path in _readable():
        command += ["--ro-bind", path, path]
    command += ["--bind", str(scratch), str(scratch), "--chdir", str(scratch)]
    if uid is not None:
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        command += ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs", "--"]
    return command


def _limits(seconds: int, memory: int, processes: int) -> None:
    """Resource limits, set in the child before it becomes the kernel."""
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, GIGABYTE // 16),
        (resource.RLIMIT_NOFILE, 512),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_NPROC, processes),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


class GradedProvisioner(LocalProvisioner):
    """Launches the kernel of one submission; configured in the kernel specification that the runner writes.

    ``scratch``: the kernel's folder and home. ``slot``: number of the place it runs in. ``seed``: ``COURSE_SEED``.
    ``seconds``, ``memory``: limits of processor time and address space.
    """

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        own = self.kernel_spec.metadata["kernel_provisioner"]["config"]
        scratch = Path(own["scratch"])
        # What the kernel needs of the outside lies in the one folder that it can see.
        self.parent.connection_file = str(scratch / "kernel.json")
        if self.parent.transport == "ipc":
            self.parent.ip = str(scratch / "kernel")
        kwargs = await super().pre_launch(**kwargs)
        kwargs["env"] = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "HOME": str(scratch),
            "IPYTHONDIR": str(scratch / ".ipython"),
            "JUPYTER_RUNTIME_DIR": str(scratch),
            "MPLCONFIGDIR": str(scratch),
            "TMPDIR": "/tmp" if isolation() == "isolated" else str(scratch),
            "LANG": "C.UTF-8",
            "PYTHONNOUSERSITE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "COURSE_SEED": str(own["seed"]),
            "COURSE_PROGRESS": "off",
        } | {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_CORE")}
        kwargs["cwd"] = str(scratch)
        alone = isolation() == "isolated" and os.geteuid() == 0  # a user of its own has no other processes
        processes = MOST_PROCESSES + (0 if alone else _tasks())
        kwargs["preexec_fn"] = lambda: _limits(own["seconds"], own["memory"], processes)
        if isolation() == "isolated":
            uid = FIRST_UID + own["slot"] if os.geteuid() == 0 else None
            if uid is not None:
                for path in (scratch, *scratch.rglob("*")):
                    os.chown(path, uid, uid)
            kwargs["cmd"] = [*_sandbox(scratch, uid), *kwargs["cmd"]]
        return kwargs

    async def send_signal(self, signum: int) -> None:
        """Interrupts must reach the kernel behind bubblewrap: its whole process group gets them."""
        if self.process and signum == signal.SIGINT and isolation() == "isolated":
            for child in _descendants(self.process.pid):
                try:
                    os.kill(child, signum)
                except ProcessLookupError:
                    continue
            return
        await super().send_signal(signum)


def _descendants(pid: int) -> list[int]:
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [child.pid for child in children if "bwrap" not in child.name()]
