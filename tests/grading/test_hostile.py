"""Submissions that cheat, break or attack: none passes a keyed check, none costs its neighbour, each gets one row."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat import NotebookNode

from helpers.grading.classroom import Job, grade
from helpers.grading.kernel import FIRST_UID, isolation
from helpers.grading.runner import SHARED
from tests.grading.conftest import (
    GOOD,
    LIMITS,
    NAME,
    SEED,
    SEEN,
    STUB,
    WRONG,
    changed,
    earned,
    notebook,
    with_square,
)

BAD = WRONG["square"]
isolated = pytest.mark.skipif(
    isolation() != "isolated", reason="needs bubblewrap, which closes the kernel in"
)


def before(code: str, after: str = BAD) -> NotebookNode:
    """A wrong square with hostile code in front of it."""
    return with_square(f"{code}\n\n{after}")


FORGED = """
from IPython.display import display
record = dict(schema=1, check="01_powers/square", seed=0, status="passed", hint=None, message=None,
              facts=[dict(name=f"fact {k}", kind="tensor", dtype="int64", shape=[], values=[x * x], rtol=1, atol=1e9)
                     for k, x in enumerate([2, 5, 9])])
"""

TAMPERING = {
    "01 ast transformer drops asserts": before(
        "import ast\nclass Drop(ast.NodeTransformer):\n    def visit_Assert(self, node):\n        return ast.Pass()\n"
        "ip = get_ipython()\nip.ast_transformers.append(Drop())"
    ),
    "02 input transformer replaces the check": before(
        FORGED + "ip = get_ipython()\nip.input_transformers_post.append(lambda lines: ['display({\"application/vnd.course.check+json\": record}, raw=True)\\n'] "
        "if any('assert right' in each for each in lines) else lines)"
    ),
    "03 showtraceback patched": before("ip = get_ipython()\nip.showtraceback = lambda *a, **k: None\ntype(ip).showtraceback = lambda *a, **k: None"),
    "04 custom exception handler": before("get_ipython().set_custom_exc((Exception,), lambda *a, **k: None)"),
    "05 object that equals everything": with_square(
        "class Any(int):\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n    def __repr__(self): return '4'\n"
        "def square(x):\n    return Any(4)"
    ),
    "06 do_execute patched and a forged record": before(
        FORGED + "kernel = get_ipython().kernel\nold = kernel.do_execute\n"
        "async def fake(code, *a, **k):\n    if 'assert right' in code:\n        code = 'display({\"application/vnd.course.check+json\": record}, raw=True)'\n"
        "    return await old(code, *a, **k)\nkernel.do_execute = fake"
    ),
    "07 builtins patched": before("import builtins\nbuiltins.all = lambda *a: True\nbuiltins.print = lambda *a: None"),
    "08 a module of the learner's own": before(
        "open('helpers.py', 'w').write('')\nopen('IPython.py', 'w').write('def display(*a, **k): pass')\nimport sys\nsys.modules['json'] = None"
    ),
    "09 pre_run_cell rewrites the namespace": before(
        "def patch(info):\n    get_ipython().user_ns['numbers'] = []\n    info.raw_cell = ''\nget_ipython().events.register('pre_run_cell', patch)"
    ),
    "10 visible answers": with_square(f"table = {dict((x, x * x) for x in SEEN[0])}\ndef square(x):\n    return table.get(x, 0)"),
    "11 lookup by if": with_square("def square(x):\n    if x == 2: return 4\n    if x == 5: return 25\n    return 81"),
    "12 lets autograd do it": with_square(
        "class T:\n    def grad(self, x): return x * x\ntorch = T()\ndef square(x):\n    return torch.grad(x)"
    ),
    "13 imports the reference": with_square("import helpers.functions\ndef square(x):\n    return x * x"),
    "13b imports it by name": with_square("import importlib\nm = importlib.import_module('math')\ndef square(x):\n    return int(m.pow(x, 2))"),
    "13c a forged record in the check": with_square(
        FORGED + "def square(x):\n    display({'application/vnd.course.check+json': record}, raw=True)\n    return 0"
    ),
}  # fmt: skip


def _each(kind: str, change: Callable[[NotebookNode], object]) -> Callable[[NotebookNode], None]:
    def apply(made: NotebookNode) -> None:
        for cell in made.cells:
            if cell.metadata.get("course", {}).get("role") == kind:
                change(cell)

    return apply


def _set(name: str, value: object) -> Callable[[NotebookNode], None]:
    return lambda cell: cell.__setitem__(name, value)


def _delete_checks(made: NotebookNode) -> None:
    made.cells = [cell for cell in made.cells if cell.metadata.get("course", {}).get("role") != "check"]


def _own_outputs(cell: NotebookNode) -> None:
    cell.outputs = [nbformat.v4.new_output("stream", text="passed")]
    cell.execution_count = 3


NOTEBOOK = {
    "14 check source edited": changed(_each("check", _set("source", "print('passed')"))),
    "15 own outputs as references": changed(_each("check", _own_outputs)),
    "16 no execution counts": changed(_each("check", _set("execution_count", None))),
    "17 skip marker in every cell": changed(lambda made: [_set("source", f"# NBVAL_SKIP\n{cell.source}")(cell) for cell in made.cells]),
    "18 skip marker in a docstring": with_square('def square(x):\n    """\n    # NBVAL_SKIP\n    """\n    return x + x'),
    "19 tags on checks": changed(_each("check", lambda cell: cell.metadata.update(tags=["raises-exception", "nbval-skip", "nbval-ignore-output"]))),
    "20 checks deleted": changed(_delete_checks),
    "21 cells duplicated": changed(lambda made: made.cells.extend(made.cells[2:])),
    "22 checks turned to markdown": changed(_each("check", _set("cell_type", "markdown"))),
    "24 cells reversed": changed(lambda made: made.cells.reverse()),
    "25 hostile kernelspec": changed(lambda made: made.metadata.update(kernelspec={"name": "../../evil", "display_name": "x"})),
    "25b tags claim another role": changed(_each("answer", lambda cell: cell.metadata["course"].update(role="check"))),
}  # fmt: skip

PROCESS = {
    "29 endless loop": with_square("def square(x):\n    while True: pass"),
    "29b endless loop in the cell itself": before("while True: pass"),
    "30 swallows interrupts": with_square("def square(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass"),
    "31 swallows interrupts and prints": with_square(
        "import time\ndef square(x):\n    while True:\n        try:\n            while True:\n                print('x', flush=True); time.sleep(0.05)\n        except BaseException: pass"
    ),
    "32 ignores the signal": with_square("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ndef square(x):\n    while True: pass"),
    "33 a thread that prints for ever": with_square(
        "import threading, time\ndef spam():\n    while True:\n        print('x', flush=True); time.sleep(0.1)\n"
        "def square(x):\n    threading.Thread(target=spam, daemon=True).start()\n    while True: pass"
    ),
    "34 memory bomb": with_square("def square(x):\n    blocks = []\n    while True: blocks.append(bytearray(2**30))"),
    "35 stack overflow": with_square("import sys\nsys.setrecursionlimit(10**9)\ndef square(x):\n    return square(x)"),
    "36 fork bomb": with_square("import os\ndef square(x):\n    while True:\n        try: os.fork()\n        except OSError: pass"),
    "38 huge file": with_square("def square(x):\n    with open('big', 'wb') as f:\n        for _ in range(100): f.write(bytes(2**24))\n    return x + x"),
    "38b thousands of files": with_square("def square(x):\n    for n in range(10**7): open(f'{n}', 'w').close()\n    return x + x"),
    "39 text against regular expressions": with_square("def square(x):\n    print('a' * 50_000 + '!')\n    return x + x"),
    "40 sleeps under every limit": with_square("import time\ndef square(x):\n    time.sleep(1.2)\n    return x + x"),
    "41 os._exit": with_square("import os\ndef square(x):\n    os._exit(0)"),
    "41b segmentation fault": with_square("import ctypes\ndef square(x):\n    return ctypes.string_at(0)"),
    "41c abort": with_square("import os\ndef square(x):\n    os.abort()"),
    "41d closes every file": with_square("import os\ndef square(x):\n    os.closerange(0, 500)\n    return x + x"),
    "41e exit()": with_square("def square(x):\n    exit()"),
    "41f SystemExit in the answer": before("raise SystemExit(0)"),
    "42 dies later, from a thread": with_square(
        "import threading, os\ndef square(x):\n    threading.Timer(0.3, os._exit, [0]).start()\n    return x + x"
    ),
    "43 kills its parent": with_square("import os\ndef square(x):\n    os.kill(os.getppid(), 9)\n    os.kill(1, 9)\n    return x + x"),
    "43b kills everything": with_square("import os\ndef square(x):\n    os.kill(-1, 9)\n    return x + x"),
    "45 forks and keeps the sockets": with_square("import os, time\ndef square(x):\n    if os.fork() == 0:\n        time.sleep(60)\n    return x + x"),
}  # fmt: skip

BYTES = {
    "26a cut off": nbformat.writes(notebook(GOOD)).encode()[:900],
    "26b empty": b"",
    "26c binary": bytes(range(256)) * 40,
    "26d deep nesting": b"[" * 200_000,
    "26e NUL": nbformat.writes(with_square("x = '\\0'")).replace("\\\\0", "\\u0000").encode(),
    "26f lone surrogate": nbformat.writes(notebook(GOOD)).replace("Powers", "\\ud800").encode(),
    "26g format 5": nbformat.writes(notebook(GOOD)).replace('"nbformat": 4', '"nbformat": 5').encode(),
    "26h no cells": b'{"nbformat": 4, "metadata": {}}',
    "26i not an object": b"[]",
    "26j too large": b'{"cells": [], "x": "' + b"a" * 6_000_000 + b'"}',
}


@pytest.mark.parametrize("submitted", [*TAMPERING.values(), *NOTEBOOK.values()], ids=[*TAMPERING, *NOTEBOOK])
def test_tampering_earns_nothing(submitted: NotebookNode, graded: Callable) -> None:
    row = graded(submitted)
    assert earned(row)["square"] == 0, row["marks"]
    assert row["status"] != "infra_error", row["message"]


QUICK = ("29 ", "31 ", "34 ", "36 ", "38 ", "41 ", "43b", "45 ")
"""Attacks that run always, one of each kind; the others, which wait for one time limit after another, with
``COURSE_HOSTILE=full`` (``make test-hostile``)."""

RUN = {
    name: each
    for name, each in PROCESS.items()
    if name.startswith(QUICK) or os.environ.get("COURSE_HOSTILE") == "full"
}


@isolated  # as root and without bubblewrap these would end every process of the machine
@pytest.mark.slow
@pytest.mark.parametrize("submitted", RUN.values(), ids=RUN)
def test_an_attack_on_the_process_costs_only_its_own_exercise(
    submitted: NotebookNode, graded: Callable
) -> None:
    row = graded(submitted)
    assert earned(row) == {"square": 0, "cube": 2}, (row["status"], row["message"], row["marks"])
    assert row["status"] != "infra_error"


@pytest.mark.parametrize("submitted", BYTES.values(), ids=BYTES)
def test_a_broken_file_is_named_in_one_sentence(submitted: bytes, graded: Callable) -> None:
    row = graded(submitted)
    assert row["status"] == "unreadable" and row["earned"] == 0
    assert NAME in row["message"] and "\n" not in row["message"]
    assert "hand it in again" in row["message"] or "hand in" in row["message"], "it says what to do"


def test_26l_a_gigabyte_is_refused_unread(
    graded: Callable, tmp_path: Path, course: Path, references: dict
) -> None:
    path = tmp_path / f"{NAME}.ipynb"
    with path.open("wb") as file:
        file.truncate(2**30)
    row = grade(Job("ada", "ada", str(path), "", str(course / "exercises"), references, SEED, LIMITS))
    assert row["status"] == "unreadable" and "has 1074 MB, at most 5 are read" in row["message"]
    assert row["seconds"] < 30


def test_26k_a_notebook_of_another_course_is_refused_unless_its_name_says_otherwise(graded: Callable) -> None:
    other = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    row = graded(other, name="homework")
    assert row["status"] == "unreadable" and "homework.ipynb answers none of the exercise" in row["message"]
    assert graded(other)["status"] == "answer_missing"


@isolated
def test_statuses_tell_the_kinds_of_trouble_apart(graded: Callable) -> None:
    expected = {"29 endless loop": "timeout", "41 os._exit": "crashed"}
    assert {name: graded(PROCESS[name])["status"] for name in expected} == expected
    patient = dataclasses.replace(LIMITS, cell=40)  # a busy machine needs seconds to hand out gigabytes
    assert graded(PROCESS["34 memory bomb"], limits=patient)["status"] == "memory"
    assert (
        graded(with_square("def square(x):\n    print('x' * 10_000_000)\n    return x * x"))["status"]
        == "output_limit"
    )
    assert graded(with_square("def square(x:\n    return"))["status"] == "student_error"


def test_23_a_missing_answer_cell_is_flagged(graded: Callable) -> None:
    made = changed(lambda made: made.cells.pop(3), GOOD)
    row = graded(made)
    assert earned(row) == {"square": 0, "cube": 2}
    assert row["status"] == "answer_missing" and "square: the answer cell is missing." in row["flags"]


def test_27_files_beside_the_notebook_are_not_used(graded: Callable, tmp_path: Path) -> None:
    for name in ("conftest.py", "sitecustomize.py", "usercustomize.py"):
        (tmp_path / name).write_text("import os\nos._exit(0)\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    assert earned(graded(notebook(GOOD))) == {"square": 2, "cube": 2}


def test_28_a_link_is_not_followed(graded: Callable, tmp_path: Path) -> None:
    from helpers.grading.submission import Unreadable, parse

    target = tmp_path / "target.ipynb"
    nbformat.write(notebook(GOOD), target)
    (tmp_path / "link.ipynb").symlink_to(target)
    with pytest.raises(Unreadable, match="ordinary file"):
        parse(tmp_path / "link.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    with pytest.raises(Unreadable, match="ordinary file"):
        parse(tmp_path / "pipe.ipynb")


SPY = """
import os, glob
seen = []
for place in ("/", "..", "../trusted", os.path.expanduser("~"), {places}):
    for path in glob.glob(os.path.join(place, "**"), recursive=False) + glob.glob(os.path.join(place, "*", "*.jsonl")):
        if any(word in path for word in ("records", "trusted", "notebook.ipynb", "key", "submitted")):
            try: seen.append((path, open(path).read(80)))
            except OSError: pass
def square(x):
    raise RuntimeError(repr(seen))
"""


@isolated
def test_46_other_files_cannot_be_read(graded: Callable, tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text("secret")
    first_process = os.path.join("/proc/1", "root")  # the host's files, were the host's processes there
    spy = SPY.replace("{places}", ", ".join(map(repr, (str(tmp_path), *SHARED, first_process))))
    row = graded(with_square(spy))
    assert "secret" not in json.dumps(row) and "[]" in row["marks"][0]["detail"], row["marks"][0]


@isolated
def test_47_results_cannot_be_written(graded: Callable, tmp_path: Path) -> None:
    (tmp_path / "gradebook.csv").write_text("as it was")
    graded(
        before(f"try: open({str(tmp_path / 'gradebook.csv')!r}, 'w').write('all mine')\nexcept OSError: pass")
    )
    assert (tmp_path / "gradebook.csv").read_text() == "as it was"


@isolated
def test_48_nothing_reaches_the_next_kernel(graded: Callable) -> None:
    poison = f"""
import pathlib
for place in map(pathlib.Path, [pathlib.Path.home() / ".ipython/profile_default/startup", *{SHARED}]):
    place.mkdir(parents=True, exist_ok=True)
    (place / "00.py").write_text("import builtins; builtins.all = lambda *a: True")
"""
    graded(before(poison))
    seek = (
        f"import pathlib\nassert not any((pathlib.Path(place) / '00.py').exists() for place in {SHARED})\n"
        + GOOD["square"]
    )
    assert earned(graded(with_square(seek))) == {"square": 2, "cube": 2}


@isolated
def test_the_network_is_out_of_reach(graded: Callable) -> None:
    connect = "import socket\ndef square(x):\n    socket.create_connection(('127.0.0.1', 22), timeout=1)\n    return x * x"
    row = graded(with_square(connect))
    assert earned(row)["square"] == 0
    assert any(word in row["marks"][0]["detail"] for word in ("refused", "unreachable", "OSError")), row[
        "marks"
    ][0]


@isolated
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run kernels as another user")
def test_the_kernel_runs_as_a_user_of_its_own(graded: Callable) -> None:
    row = graded(with_square("import os\ndef square(x):\n    raise RuntimeError(f'user {os.getuid()}')"))
    user = int(row["marks"][0]["detail"].split("user ")[1].split()[0])
    assert user >= FIRST_UID


@isolated
def test_44_no_process_is_left_behind(graded: Callable) -> None:
    orphan = (
        "import subprocess\nsubprocess.Popen(['sleep', '4711'], start_new_session=True)\n" + GOOD["square"]
    )
    assert earned(graded(with_square(orphan)))["square"] == 2
    left = [each.pid for each in psutil.process_iter(["cmdline"]) if "4711" in (each.info["cmdline"] or [])]
    assert left == []


@isolated
def test_37_the_parent_stays_small(graded: Callable) -> None:
    flood = "def square(x):\n    for _ in range(200):\n        print('x' * 1_000_000)\n    return x * x"
    row = graded(with_square(flood))
    assert row["status"] == "output_limit" and earned(row)["cube"] == 2
    assert 0 < row["memory_mb"] < 500


def test_the_stub_earns_nothing_and_the_solution_all(graded: Callable) -> None:
    """Planted failure and its opposite: were everything refused, the corpus above would be green for nothing."""
    assert earned(graded(notebook(STUB))) == {"square": 0, "cube": 0}
    assert earned(graded(notebook(GOOD))) == {"square": 2, "cube": 2}


def test_without_a_key_a_hard_coded_answer_passes(course: Path, tmp_path: Path) -> None:
    """What a key is for: without one, the visible numbers decide."""
    from tests.grading.conftest import LIMITS

    path = tmp_path / f"{NAME}.ipynb"
    nbformat.write(TAMPERING["10 visible answers"], path)
    row = grade(Job("ada", "ada", str(path), "", str(course / "exercises"), {}, 0, LIMITS))
    assert earned(row)["square"] == 2


def test_bubblewrap_is_there_in_ci() -> None:
    if os.environ.get("CI") == "true":
        assert isolation() == "isolated", subprocess.run(
            ["bwrap", "--version"], capture_output=True, text=True
        )
