"""The catalogue page: one entry per finding, with a sick example and its cure.

``python -m helpers.clinic.catalogue`` prints the page; ``--out FILE`` writes it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import textwrap
from pathlib import Path
from types import ModuleType

from .entries import ENTRIES, Entry

INTRODUCTION = """\
# The clinic's catalogue

`helpers.clinic.diagnose(fn, *inputs)` examines a custom gradient and names what is wrong with it:

```python
from helpers.clinic import diagnose

diagnose(Huber.apply, x, target)
```

The same from a shell, for use in any project: `course diagnose my_ops.py:Huber` (status 0 healthy, 1 findings,
2 could not examine), and in a test: `assert_healthy(Huber.apply, x, target)`.

Errors and warnings make a Function unhealthy; notes never do. Every finding shows the numbers it rests on and the
lines that reproduce them. What follows is one entry per finding, with a sick example and its cure. Each
example returns the Function and sample inputs; a test keeps the sick ones sick and the cured ones healthy.

What the examination does *not* do: it looks at and around the sample inputs you give, not everywhere. Inputs whose
gradient matters should have `requires_grad=True`; when none has, every floating-point input is examined. An infinite
gradient where the true slope is infinite (the square root at zero) is right and not reported; NaN always is. The time
limit (20 s) stops Python code wherever it is; a call into compiled code that never returns cannot be
stopped, and compiled code that corrupts memory takes the process with it.
"""


def render() -> str:
    """Return the catalogue page as Markdown."""
    rows = "\n".join(f"| [`{e.slug}`](#{e.slug}) | {e.severity} | {e.what} |" for e in ENTRIES.values())
    sections = "\n\n".join(_section(entry) for entry in ENTRIES.values())
    return f"{INTRODUCTION}\n| finding | severity | what was seen |\n|---|---|---|\n{rows}\n\n{sections}\n"


def example(slug: str) -> ModuleType:
    """Return the module with the functions ``sick`` and ``cured`` of an entry."""
    return importlib.import_module(f"{__package__}.examples.{slug.replace('-', '_')}")


def _section(entry: Entry) -> str:
    module = example(entry.slug)
    parts = [f"## {entry.slug}", f"*{entry.severity}* · {entry.what}", entry.why, f"**Cure.** {entry.cure}"]
    parts.append(f"```python\n{_source(module.sick)}\n```")
    if hasattr(module, "cured"):
        parts.append(f"Cured:\n\n```python\n{_source(module.cured)}\n```")
    if entry.reports:
        parts.append("Seen in: " + ", ".join(_link(report) for report in entry.reports) + ".")
    return "\n\n".join(parts)


def _source(function: object) -> str:
    return textwrap.dedent(inspect.getsource(function)).strip()


def _link(report: str) -> str:
    if report.startswith("https://"):
        return f"<{report}>"
    project, number = report.split("#")
    return f"[{report}](https://github.com/{project}/issues/{number})"


def main(argv: list[str] | None = None) -> int:
    """Print the catalogue page, or write it to the file named with ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m helpers.clinic.catalogue", description=__doc__)
    parser.add_argument("--out", type=Path, help="file to write; standard output by default")
    out = parser.parse_args(argv).out
    if out is None:
        sys.stdout.write(render())
    else:
        out.write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
