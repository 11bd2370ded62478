"""``course``: the one command of the course. Each subcommand lives in its own room and is imported when called."""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "lab": ("helpers.lab:main", "open JupyterLab at the first lesson"),
    "doctor": ("helpers.doctor:main", "say what in this installation may not work, and the cure"),
    "check": ("helpers.grading.commands:check", "check your own exercise notebooks"),
    "progress": ("helpers.checks.progress:main", "show what is done and what comes next"),
    "diagnose": ("helpers.clinic.command:main", "examine a custom gradient: course diagnose FILE.py:NAME"),
    "export": ("helpers.explorers.export:main", "a lesson as a static page whose explorers still move"),
    "release": ("helpers.grading.commands:release", "make the bundle that learners get"),
    "key": ("helpers.grading.commands:key", "make private reference outputs for grading"),
    "grade": ("helpers.grading.commands:grade", "grade submissions"),
    "regrade": ("helpers.grading.commands:regrade", "grade again what a new key or course changes"),
    "sync": ("helpers.authoring:main", "make exercises from solutions and refresh stored outputs"),
}


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "usage: course COMMAND [options]\n\n" + "\n".join(lines) + "\n\n`course COMMAND --help` says more."


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit status; 2 for a command that does not exist."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if argv[0] not in COMMANDS:
        print(f"course: there is no command {argv[0]!r}.\n\n{usage()}", file=sys.stderr)
        return 2
    module, function = COMMANDS[argv[0]][0].split(":")
    try:
        return getattr(importlib.import_module(module), function)(argv[1:])
    except KeyboardInterrupt:
        print("\ncourse: stopped.", file=sys.stderr)
        return 130
