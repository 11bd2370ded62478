"""``course diagnose FILE.py:NAME``: examine a custom gradient from the shell."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

HEALTHY, FINDINGS, NOT_EXAMINED = 0, 1, 2

EPILOG = """\
NAME is a function that returns (fn, inputs), usually called make; or a Function, a function or a module, with its
sample inputs under the name given by --inputs: a tuple of tensors, or a function that returns one.
Exit status: 0 healthy, 1 findings, 2 could not be examined.
"""


class _Unusable(Exception):
    """The file does not hold what was asked for."""


def main(argv: list[str]) -> int:
    """Examine what the command line names and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="course diagnose",
        description="Name what is wrong with a custom gradient.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="FILE.py:NAME")
    parser.add_argument(
        "--inputs", default="inputs", help="name of the sample inputs in FILE.py (default: inputs)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit (default: 20)")
    options = parser.parse_args(argv)

    from .diagnosis import diagnose

    try:
        fn, inputs = _load(options.target, options.inputs)
        report = diagnose(fn, *inputs, seconds=options.seconds)
    except (_Unusable, ValueError) as problem:
        return _refuse(str(problem), options.format)
    if not report.examined:
        return _refuse(" ".join([report.headline + ".", *report.remarks]), options.format)
    print(
        json.dumps(report.as_dict(), indent=2, ensure_ascii=False)
        if options.format == "json"
        else report.text()
    )
    return HEALTHY if report.healthy else FINDINGS


def _refuse(problem: str, form: str) -> int:
    if form == "json":
        print(json.dumps({"examined": False, "problem": problem}, ensure_ascii=False))
    else:
        print(f"course diagnose: {problem}", file=sys.stderr)
    return NOT_EXAMINED


def _load(target: str, inputs_name: str) -> tuple[Callable[..., object], tuple[object, ...]]:
    file, separator, name = target.rpartition(":")
    if not separator or not file or not name:
        raise _Unusable(f"the target must look like FILE.py:NAME; got {target!r}")
    path = Path(file)
    if not path.is_file():
        raise _Unusable(f"there is no file {file!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise _Unusable(f"{file!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _Unusable(f"{file!r} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if not hasattr(module, name):
        raise _Unusable(f"{file!r} defines no {name!r}")
    found = getattr(module, name)
    if hasattr(module, inputs_name):
        inputs = getattr(module, inputs_name)
        return found, tuple(inputs() if callable(inputs) else inputs)
    try:
        if isinstance(found, type):
            raise TypeError("a class is not a maker of sample inputs")
        fn, inputs = found()
    except Exception as error:
        raise _Unusable(
            f"{name!r} does not return (fn, inputs), and {file!r} has no {inputs_name!r} to call it with"
        ) from error
    return fn, tuple(inputs)
