"""Every exercise against the answers that people really write: each wrong one gets its own hint, each right one passes.

An answer file holds what a learner would write in the answer cell. A wrong one begins with the slug of the hint it
must get (``# hint: forgot-upstream``) and with who writes it (``# story: …``).
"""

from __future__ import annotations

import ast
import importlib
import linecache
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

from helpers.checks.verdict import Verdict
from helpers.course import Exercise, load

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXERCISES = {exercise.check_id: exercise for exercise in load().exercises()}
ANSWERS = sorted(HERE.glob("*/*/*.py"))
WRONG, RIGHT = ([each for each in ANSWERS if each.name.startswith(kind)] for kind in ("wrong_", "right_"))


def name_of(path: Path) -> str:
    return path.relative_to(HERE).with_suffix("").as_posix()


@cache
def source_cells(notebook: str) -> dict[tuple[str, str], str]:
    """Sources of a solution notebook's cells by (exercise, role)."""
    read = nbformat.read(ROOT / "solutions" / f"{notebook}.ipynb", as_version=4)
    own = ((cell.metadata.get("course", {}), cell.source) for cell in read.cells)
    return {(tags.get("exercise", ""), tags["role"]): source for tags, source in own if "role" in tags}


def run_cell(source: str, namespace: dict[str, Any], filename: str) -> None:
    """Run a cell the way a kernel does: with its source where ``inspect`` and tracebacks can find it."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)


def verdict_on(answer: str, exercise: Exercise, filename: str = "<answer>") -> Verdict:
    """What the exercise's check says about an answer cell."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    run_cell(source_cells(exercise.notebook)["", "imports"], namespace, f"<imports of {exercise.notebook}>")
    run_cell(answer, namespace, filename)
    module = importlib.import_module(f"helpers.checks.{load().notebook(exercise.notebook).checks}")
    check: Callable = getattr(module, f"check_{exercise.id}")
    return check.examine(namespace)


def exercise_of(path: Path) -> Exercise:
    return EXERCISES["/".join(path.relative_to(HERE).parts[:2])]


@pytest.mark.parametrize("path", WRONG, ids=name_of)
def test_a_wrong_answer_gets_its_own_hint(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    wanted = re.match(r"# hint: ([\w-]+)\n# story: .+\n", source)
    assert wanted, "a wrong answer begins with the lines '# hint: <slug>' and '# story: <who writes this>'"
    verdict = verdict_on(source, exercise_of(path), str(path))
    assert verdict.status == "failed", f"this wrong answer passes:\n{verdict.text()}"
    assert verdict.slug == wanted[1], verdict.text()
    assert verdict.hint, f"no hint is given:\n{verdict.text()}"


@pytest.mark.parametrize("path", RIGHT, ids=name_of)
def test_a_right_answer_written_differently_passes(path: Path) -> None:
    verdict = verdict_on(path.read_text(encoding="utf-8"), exercise_of(path), str(path))
    assert verdict.status == "passed", verdict.text()


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_an_exercise_has_enough_answers_of_both_kinds(exercise: Exercise) -> None:
    folder = HERE / exercise.notebook / exercise.id
    wrong, right = len(list(folder.glob("wrong_*.py"))), len(list(folder.glob("right_*.py")))
    assert wrong >= 6, f"{exercise.check_id} has {wrong} wrong answers, it needs six"
    assert right >= 3, f"{exercise.check_id} has {right} right answers, it needs three"


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_the_solution_passes_for_several_seeds(exercise: Exercise, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = source_cells(exercise.notebook)[exercise.id, "answer"]
    for seed in (0, 1, 2026):
        monkeypatch.setenv("COURSE_SEED", str(seed))
        verdict = verdict_on(answer, exercise)
        assert verdict.status == "passed", f"seed {seed}:\n{verdict.text()}"
        assert len(verdict.facts) >= 2, "a grader needs facts to compare"


def stub_of(exercise: Exercise) -> str:
    read = nbformat.read(ROOT / "exercises" / f"{exercise.notebook}.ipynb", as_version=4)
    mine = {"exercise": exercise.id, "role": "answer"}
    return next(cell.source for cell in read.cells if cell.metadata.get("course") == mine)


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_the_stub_is_not_started_rather_than_wrong(exercise: Exercise) -> None:
    verdict = verdict_on(stub_of(exercise), exercise)
    assert verdict.status == "not_started", verdict.text()


# -- mutations of the solutions ------------------------------------------------------------------------------------


class _Mutate(ast.NodeTransformer):
    """Apply the mutation ``kind`` at its ``place``-th opportunity inside methods called backward."""

    def __init__(self, kind: str, place: int) -> None:
        self.kind, self.place, self.seen, self.inside = kind, place, -1, False

    def _here(self) -> bool:
        self.seen += 1
        return self.seen == self.place

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name != "backward":
            return self.generic_visit(node)
        self.inside = True
        try:
            return self.generic_visit(node)
        finally:
            self.inside = False

    def visit_Return(self, node: ast.Return) -> ast.AST:
        node = self.generic_visit(node)
        first = node.value.elts[0] if isinstance(node.value, ast.Tuple) else node.value
        is_none = isinstance(first, ast.Constant) and first.value is None
        if self.inside and self.kind == "flip-sign" and first is not None and not is_none and self._here():
            flipped = ast.parse("(lambda g: g if g is None else -g)(g)", mode="eval").body
            flipped.args = [first]
            if isinstance(node.value, ast.Tuple):
                node.value.elts[0] = flipped
            else:
                node.value = flipped
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node = self.generic_visit(node)
        if self.inside and self.kind == "drop-upstream" and isinstance(node.op, ast.Mult):
            for side, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(side, ast.Name) and side.id.startswith("grad") and self._here():
                    return other
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node = self.generic_visit(node)
        if (
            self.inside
            and self.kind == "drop-sum"
            and getattr(node.func, "attr", "") in ("sum", "sum_to_size")
            and self._here()
        ):
            return node.func.value
        if (
            self.inside
            and self.kind == "drop-transpose"
            and getattr(node.func, "attr", "") in ("t", "transpose")
            and self._here()
        ):
            return node.func.value
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node = self.generic_visit(node)
        if self.inside and self.kind == "drop-transpose" and node.attr in ("T", "mT") and self._here():
            return node.value
        return node


def mutants() -> Iterator[tuple[str, str, str]]:
    """``(check id, mutation, source)`` for each way to mutate each solution's backward."""
    for check_id, exercise in EXERCISES.items():
        if not (ROOT / "solutions" / f"{exercise.notebook}.ipynb").exists():
            continue
        source = source_cells(exercise.notebook).get((exercise.id, "answer"), "")
        for kind in ("flip-sign", "drop-upstream", "drop-sum", "drop-transpose"):
            for place in range(20):
                tree = _Mutate(kind, place).visit(ast.parse(source))
                mutated = ast.unparse(ast.fix_missing_locations(tree))
                if mutated == ast.unparse(ast.parse(source)):
                    break
                yield check_id, f"{kind}-{place}", mutated


EQUIVALENT = {
    "05_loss_composition/stop_gradient-flip-sign-0": "minus zero is zero",
    "06_debugging/repair-drop-sum-0": "the engine itself sums a broadcast gradient back",
}
"""Mutants that are no mistake, with the reason; they must pass, so that a stale entry shows."""

MUTANTS = list(mutants())


@pytest.mark.parametrize(
    ("check_id", "mutation", "source"),
    MUTANTS,
    ids=[f"{check_id}-{mutation}" for check_id, mutation, _ in MUTANTS],
)
def test_a_mutated_solution_is_caught(check_id: str, mutation: str, source: str) -> None:
    verdict = verdict_on(source, EXERCISES[check_id], f"<mutant of {check_id}>")
    wanted = "passed" if f"{check_id}-{mutation}" in EQUIVALENT else "failed"
    assert verdict.status == wanted, f"{verdict.text()}\n{source}"


def test_there_are_mutants_of_every_kind() -> None:
    kinds = {mutation.rsplit("-", 1)[0] for _, mutation, _ in MUTANTS}
    assert kinds == {"flip-sign", "drop-upstream", "drop-sum", "drop-transpose"}


def test_the_gate_turns_red_for_a_wrong_answer_that_passes() -> None:
    """Planted failure: a solution posing as a wrong answer must not get through."""
    exercise = EXERCISES["01_registration/cube"]
    verdict = verdict_on(source_cells(exercise.notebook)["cube", "answer"], exercise)
    assert verdict.status != "failed"
