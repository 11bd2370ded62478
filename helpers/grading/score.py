"""Points from a closed list of checks: what the kernel says counts only where it equals what it could not know."""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from .runner import Attempt
from .submission import PristineExercise

ORDER = (
    "infra_error",
    "timeout",
    "memory",
    "crashed",
    "output_limit",
    "student_error",
    "answer_missing",
    "graded",
)
"""Statuses of a submission, the gravest first."""

AUTOGRAD = {"grad", "backward", "vjp", "jvp", "jacobian", "jacrev", "jacfwd", "vhp", "hvp", "enable_grad"}
NUMERICAL = {"scipy", "special", "np", "numpy"}
FORBIDDEN_ROOTS = {
    "helpers",
    "solutions",
    "importlib",
    "IPython",
    "builtins",
    "ctypes",
    "gc",
    "inspect",
}
FORBIDDEN_NAMES = ("sys.modules", "sys.meta_path", "sys._getframe", ".__subclasses__", ".__globals__")
FORBIDDEN_CALLS = {"__import__", "exec", "eval", "compile", "get_ipython", "globals", "vars", "open"}


SLUG = re.compile(r"[a-z]+(-[a-z]+)*")


@dataclass
class Mark:
    """The result of one exercise.

    Attributes:
        verdict: "passed", "failed", "not_started", or a status that explains why it could not be marked.
        message: one sentence for the learner; never a keyed value.
        hint: slug of the misconception that the check recognised.
        detail: what the kernel said, for the instructor; with a key it may hold what learners must not see.
    """

    exercise: str
    title: str
    points: float
    earned: float
    verdict: str
    message: str = ""
    hint: str = ""
    detail: str = ""

    def as_dict(self) -> dict:
        return asdict(self)


def broken_rule(source: str, own_rule: bool) -> str:
    """Why an answer is not its author's own work, or an empty string.

    Read from the source, here, where nothing the learner runs can reach: an answer that imports the course's
    references, reaches for the interpreter's machinery, or (where the rule is the task) lets autograd work it out.
    """
    try:
        tree = ast.parse(
            "\n".join("pass" if line.startswith(("%", "!")) else line for line in source.split("\n"))
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    for node in ast.walk(tree):
        roots: list[str] = []
        if isinstance(node, ast.Import):
            roots = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            roots = [(node.module or "").split(".")[0]]
        if taken := FORBIDDEN_ROOTS & set(roots):
            return f"the answer imports {min(taken)}"
        if isinstance(node, ast.Attribute):
            if (name := ast.unparse(node)).endswith(FORBIDDEN_NAMES):
                return f"the answer uses {name}"
            if own_rule and ast.unparse(node).endswith("autograd.grad"):
                return "the answer uses autograd.grad, so autograd works out the gradient"
        borrowed = {alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) else set()
        if own_rule and roots == ["torch"] and (taken := AUTOGRAD & borrowed):
            return f"the answer imports {min(taken)}, so autograd works out the gradient"
        if isinstance(node, ast.Call):
            *path, name = ast.unparse(node.func).split(".")
            if name in FORBIDDEN_CALLS and not path:
                return f"the answer calls {name}()"
            if own_rule and name in AUTOGRAD and not NUMERICAL & set(path):
                return f"the answer calls {name}(), so autograd works out the gradient"
    return ""


def same_facts(got: Sequence[Mapping], reference: Sequence[Mapping]) -> bool:
    """Do the facts of a submission equal the reference's, name by name, within the reference's tolerance?"""
    if not isinstance(got, list) or len(got) != len(reference):
        return False
    return all(
        isinstance(mine, dict) and _same_fact(mine, right) for mine, right in zip(got, reference, strict=True)
    )


def _same_fact(mine: Mapping, right: Mapping) -> bool:
    if any(mine.get(key) != right.get(key) for key in ("name", "kind")):
        return False
    if right["kind"] == "text":
        return mine.get("value") == right["value"]
    if any(mine.get(key) != right.get(key) for key in ("dtype", "shape")):
        return False
    values, wanted = mine.get("values"), right["values"]
    if not isinstance(values, list) or len(values) != len(wanted):
        return False
    return all(_same_number(a, b, right["rtol"], right["atol"]) for a, b in zip(values, wanted, strict=True))


def _same_number(mine: object, right: object, rtol: float, atol: float) -> bool:
    if isinstance(right, str) or isinstance(mine, str) or isinstance(right, bool):
        return mine == right
    if not isinstance(mine, int | float) or isinstance(mine, bool):
        return False
    # Records carry six significant digits, so nothing finer can be asked for.
    return math.isclose(mine, right, rel_tol=max(rtol, 1e-5), abs_tol=max(atol, 1e-12))


def mark(
    exercise: PristineExercise,
    answer: str | None,
    attempt: Attempt | None,
    reference: Sequence[Mapping] | None,
) -> Mark:
    """Mark one exercise.

    Args:
        answer: its source; ``None`` when it is missing.
        attempt: what happened when it ran; ``None`` when it did not run.
        reference: the facts a right answer gives; ``None`` leaves the decision to the learner's own kernel (feedback).
    """
    made = Mark(exercise.id, exercise.title, exercise.points, 0.0, "failed")
    if answer is None:
        made.verdict, made.message = "answer_missing", "There is no answer cell for this exercise."
        return made
    if attempt is None:
        made.verdict, made.message = "not_started", "Not started."
        return made
    records = [each for each in attempt.payloads if isinstance(each, dict)]
    record = records[0] if len(records) == 1 else {}
    slug = record.get("hint")
    made.hint = slug if isinstance(slug, str) and SLUG.fullmatch(slug) else ""
    made.detail = attempt.error
    if record.get("status") == "not_started":
        made.verdict, made.message = "not_started", "Not started."
    elif attempt.trouble not in ("", "student_error"):
        made.verdict = attempt.trouble
        made.message = TROUBLES[attempt.trouble]
    elif reason := broken_rule(answer, exercise.own_rule):
        made.verdict, made.hint, made.message = (
            "failed",
            "not-your-own",
            f"Write it yourself, please: {reason}.",
        )
    elif attempt.outcome != "passed":
        made.message = (
            (attempt.error or "The check failed.") if reference is None else _without_values(attempt)
        )
    elif len(records) != 1 or record.get("status") != "passed":
        made.message = "The check gave no record of its own, or more than one."
    elif reference is not None and not same_facts(record.get("facts"), reference):
        made.message = (
            "Right on the examples of the notebook, not on others: check shapes, dtypes and edge cases."
        )
        made.hint = made.hint or "other-inputs"
    else:
        made.verdict, made.earned = "passed", exercise.points
    return made


def _without_values(attempt: Attempt) -> str:
    """What went wrong on a keyed seed, without anything that the learner's code could have put into the words."""
    kind = re.match(r"[A-Za-z]+(?=:)", attempt.error)
    if attempt.trouble == "student_error" and kind and isinstance(getattr(builtins, kind[0], None), type):
        return f"The answer cell raised {kind[0]}; run it in your own notebook to see where."
    return "The check failed on inputs of its own; `course check` on your notebook shows more."


TROUBLES = {
    "timeout": "It did not end in time; is there a loop that never stops?",
    "memory": "It asked for more memory than there is.",
    "crashed": "The kernel died while it ran.",
    "output_limit": "It printed far too much.",
    "infra_error": "The grader failed, not your answer; it will be tried again.",
}


def status_of(marks: Sequence[Mark], attempts: Mapping[str, Attempt]) -> str:
    """The one status of a submission: the gravest thing that happened to any of its exercises."""
    seen = {each.verdict for each in marks} | {attempt.trouble for attempt in attempts.values()}
    return next((status for status in ORDER if status in seen), "graded")


def totals(marks: Sequence[Mark]) -> tuple[float, float]:
    """``(earned, possible)`` points."""
    return sum(each.earned for each in marks), sum(each.points for each in marks)
