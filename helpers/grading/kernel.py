"""The kernel that runs a learner's code: a provisioner that gives it a small, separate sandbox.

Where bubblewrap (``bwrap``) works, a forkserver forks the kernel into a sandbox that holds nothing else
(``helpers.grading.sandbox``); as root it runs under another user as well. Elsewhere it has its own folder, environment and
limits only: *trusted mode*, for work that is not hostile.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.provisioning import LocalProvisioner

from . import sandbox
from .forkserver import Forked
from .sandbox import GIGABYTE, limit

FIRST_UID = 61_000
"""Users that no system has, one for each place in which a kernel may run."""

PLACES = 4_000
MAX_PROCESSES = 400


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
    if not sys.platform.startswith("linux") or not shutil.which("bwrap"):
        return "trusted"
    with tempfile.TemporaryDirectory() as scratch:
        probe = [*sandbox.master(), sys.executable, "-m", "helpers.grading.sandbox", scratch]
        try:
            found = subprocess.run(probe, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return "trusted"
    return "isolated" if found.returncode == 0 else "trusted"


def isolated_environment(folder: Path, isolated: bool) -> dict[str, str]:
    """Environment variables of a kernel that works in ``folder``: nothing of the grader's own."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "HOME": str(folder),
        "IPYTHONDIR": str(folder / ".ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder),
        "MPLCONFIGDIR": str(folder),
        "TMPDIR": "/tmp" if isolated else str(folder),
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "COURSE_PROGRESS": "off",
    } | {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_CORE")}


class GradedProvisioner(LocalProvisioner):
    """Launches the kernel of one submission; configured in the kernel specification that the runner writes.

    ``scratch``: the kernel's folder and home. ``slot``: number of the place it runs in. ``seed``: ``COURSE_SEED``.
    ``seconds``, ``memory``: limits of processor time and address space. ``forkserver``: address of the forkserver to fork it,
    empty in trusted mode. ``modules``: what the forkserver should have imported.
    """

    @property
    def _own(self) -> dict[str, Any]:
        return self.kernel_spec.metadata["kernel_provisioner"]["config"]

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        scratch = Path(self._own["scratch"])
        # What the kernel needs of the outside lies in the one folder that it can see.
        self.parent.connection_file = str(scratch / "kernel.json")
        if self.parent.transport == "ipc":
            self.parent.ip = str(scratch / "kernel")
        kwargs = await super().pre_launch(**kwargs)
        kwargs["env"] = isolated_environment(scratch, bool(self._own["forkserver"])) | {
            "COURSE_SEED": str(self._own["seed"])
        }
        kwargs["cwd"] = str(scratch)
        kwargs["preexec_fn"] = lambda: limit(self._limits())
        return kwargs

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        if not self._own["forkserver"]:
            return await super().launch_kernel(cmd, **kwargs)
        scratch = Path(self._own["scratch"])
        uid = FIRST_UID + self._own["slot"] if os.geteuid() == 0 else None
        if uid is not None:
            for path in (scratch, *scratch.rglob("*")):
                os.chown(path, uid, uid)
        request = {
            "scratch": str(scratch),
            "connection": self.parent.connection_file,
            "uid": uid,
            "limits": self._limits(),
            "environment": kwargs["env"],
            "modules": self._own["modules"],
        }
        self.process = Forked(self._own["forkserver"], request)
        self.pid, self.pgid = self.process.pid, None
        return self.connection_info

    def _limits(self) -> dict[int, int]:
        alone = self._own["forkserver"] and os.geteuid() == 0  # a user of its own has no other processes
        return {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_CPU: self._own["seconds"],
            resource.RLIMIT_FSIZE: GIGABYTE // 16,
            resource.RLIMIT_NOFILE: 512,
            resource.RLIMIT_AS: self._own["memory"],
            resource.RLIMIT_NPROC: MAX_PROCESSES + (0 if alone else _tasks()),
        }
