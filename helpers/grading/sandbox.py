"""The small sandbox a kernel lives in: bubblewrap opens it, a process joins it and gives up every privilege.

In it there are the interpreter, the course's package and a scratch folder, and nothing else: no other submission, no
reference, no network, no other process. What is left in it ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

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
NAMESPACES = ("pid", "ipc", "uts", "net", "mnt")

# Numbers of <sys/prctl.h> and <linux/capability.h>.
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 24, 38
CAPABILITY_VERSION_3, MAX_CAPABILITIES = 0x20080522, 64


def master() -> list[str]:
    """What to put before the command of a process that opens sandboxes: root needs nothing, others a name space."""
    return [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]


def _readable() -> list[str]:
    """Folders the kernel must be able to read: interpreter, environment, the course's package."""
    package = Path(__file__).resolve().parent.parent
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_paths()["stdlib"], str(package)}
    paths |= {str(Path(sys.executable).resolve().parent.parent)}
    return sorted(path for path in paths if os.path.exists(path))


def _bubblewrap(scratch: Path, information: int) -> list[str]:
    """The command that opens the sandbox and keeps it open until its standard input ends."""
    command = ["bwrap", "--die-with-parent", "--new-session", "--info-fd", str(information)]
    command += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
    for path in SYSTEM:
        if Path(path).is_symlink():
            command += ["--symlink", os.readlink(path), path]
        elif Path(path).exists():
            command += ["--ro-bind", path, path]
    small = ["--size", str(GIGABYTE // 2)]
    command += ["--proc", "/proc", "--dev", "/dev", *small, "--perms", "1777", "--tmpfs", "/dev/shm"]
    command += [*small, "--perms", "1777", "--tmpfs", "/tmp"]
    # Folders that bubblewrap makes on the way are its user's alone, unless they are made beforehand.
    parents = {parent for path in (*_readable(), str(scratch)) for parent in Path(path).parents[:-1]}
    for parent in sorted(parents - {Path("/tmp"), Path("/dev"), Path("/usr")}):
        command += ["--perms", "0755", "--dir", str(parent)]
    for path in _readable():
        command += ["--ro-bind", path, path]
    return [*command, "--bind", str(scratch), str(scratch), "--", "/bin/sh", "-c", "echo open; exec cat"]


@contextlib.contextmanager
def joined(scratch: Path) -> Iterator[None]:
    """Open a sandbox and join it: the next process that this one forks lives there, and dies with it at the end.

    There is no way back: this process must be one that was forked for the purpose.

    Raises:
        OSError: bubblewrap is missing or refuses.
    """
    reading, writing = os.pipe()
    opened = subprocess.Popen(
        _bubblewrap(scratch, writing),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[writing],
    )
    os.close(writing)
    try:
        if opened.stdout.readline() != b"open\n":
            raise OSError(f"bubblewrap: {opened.stderr.read().decode(errors='replace').strip()}")
        with open(reading, encoding="utf-8") as information:
            first = json.load(information)["child-pid"]
        doors = [os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY) for name in NAMESPACES]
        for door in doors:
            _call("setns", door, 0)
            os.close(door)
        yield
    finally:
        opened.kill()  # its first process was the sandbox's first: all others in it are killed too
        opened.wait()


def enter(scratch: Path, uid: int | None, limits: dict[int, int]) -> None:
    """In a process forked inside a sandbox: become a user with no privilege, within limits, in the scratch folder.

    Args:
        scratch: the folder to work in.
        uid: the user to become, for root.
        limits: the limits of each resource, by number of :mod:`resource`.
    """
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.closerange(3, 65_536)
    limit(limits)
    for capability in range(MAX_CAPABILITIES):
        with contextlib.suppress(OSError):  # there are fewer on this system
            _call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)  # or its own /proc would be closed to it
    os.chdir(scratch)


def limit(limits: dict[int, int]) -> None:
    """Set the limits that this process may use of each resource, by number of :mod:`resource`."""
    for what, value in limits.items():
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def _call(name: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0 when all is well."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def status_of(pid: int) -> int:
    """Wait for a child and return its status as :class:`subprocess.Popen` gives it: negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    """Try it: 0 when a process in a sandbox of its own can import what a kernel imports."""
    scratch = Path(sys.argv[1])
    with joined(scratch):
        pid = os.fork()
        if pid == 0:
            try:
                enter(scratch, None, {})
                import ssl  # noqa: F401

                import ipykernel  # noqa: F401
            except BaseException:
                os._exit(1)
            os._exit(0)
        signal.alarm(60)
        return status_of(pid)


if __name__ == "__main__":
    sys.exit(main())
