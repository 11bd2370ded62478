"""Kernels forked from one forkserver: alike at birth, strangers ever after."""

from __future__ import annotations

import os
from collections.abc import Callable

import psutil
import pytest

from helpers.grading import forkserver
from helpers.grading.kernel import isolation
from helpers.grading.runner import SHARED
from tests.grading.conftest import GOOD, earned, notebook, with_square

pytestmark = pytest.mark.skipif(
    isolation() != "isolated", reason="needs bubblewrap, in whose sandboxes a forkserver's kernels live"
)


def told(row: dict) -> str:
    """What the answer to ``square`` said in its exception."""
    return row["marks"][0]["detail"]


def asked(question: str) -> str:
    """An answer that tells something about its kernel."""
    return f"import os, pathlib, sys\ndef square(x):\n    raise RuntimeError('[' + str({question}) + ']')"


def test_what_one_kernel_changes_the_next_does_not_see(graded: Callable) -> None:
    left = os.path.join(SHARED[-1], "left")
    vandal = (
        f"import json, os\njson.dumps = None\nos.environ['LEFT'] = 'behind'\nopen({left!r}, 'w').close()\n"
    )
    graded(with_square(vandal + GOOD["square"]))
    seen = graded(with_square(asked(f"'LEFT' in os.environ or os.path.exists({left!r}) or os.getcwd()")))
    assert "True" not in told(seen) and "course-run" in told(seen)
    assert earned(graded(notebook(GOOD))) == {"square": 2, "cube": 2}


def test_a_kernel_has_no_privilege_and_can_gain_none(graded: Callable) -> None:
    lines = "[l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapPrm', 'CapBnd', 'NoNewPrivs'))]"
    nothing = "0" * 16
    assert f"['{nothing}', '{nothing}', '{nothing}', '1']" in told(graded(with_square(asked(lines))))


def test_a_kernel_sees_neither_the_forkserver_nor_what_the_grader_knows(
    graded: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADERS_SECRET", "hidden")
    assert "[['1', '2', " in told(
        graded(with_square(asked("sorted(filter(str.isdecimal, os.listdir('/proc')))")))
    )
    known = "b'hidden' in open('/proc/self/environ', 'rb').read() or 'GRADERS_SECRET' in os.environ"
    assert "[False]" in told(graded(with_square(asked(known))))
    sockets = "[os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')]"
    assert "forkserver" not in told(graded(with_square(asked(sockets))))


def test_two_kernels_do_not_draw_the_same_random_numbers(graded: Callable) -> None:
    draw = asked("__import__('random').random()")
    assert told(graded(with_square(draw))) != told(graded(with_square(draw)))


def test_a_forkserver_that_died_is_replaced(graded: Callable) -> None:
    graded(notebook(GOOD))
    old = dict(forkserver._running)
    assert sorted(old) == ["kernel", "pytest"]
    for each in old.values():
        psutil.Process(each.process.pid).kill()
        each.process.wait()
    assert earned(graded(notebook(GOOD))) == {"square": 2, "cube": 2}
    assert all(forkserver._running[role] is not each for role, each in old.items())


def test_a_forkserver_that_cannot_open_a_sandbox_says_why(tmp_path) -> None:
    address = forkserver.address("kernel", "course-run-", lambda folder: dict(os.environ))
    missing = {
        "scratch": str(tmp_path / "missing"),
        "connection": "",
        "uid": None,
        "limits": {},
        "environment": {},
        "modules": [],
    }
    with pytest.raises(RuntimeError, match=r"bubblewrap: .*missing"):
        forkserver.Forked(address, missing)
