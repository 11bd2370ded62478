"""The examiner: what a learner reads for each way to be wrong, and what the grader gets."""

from __future__ import annotations

import json
import linecache
import random
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.checks import progress, registration
from helpers.checks.exam import CheckFailed, Exam, examine
from helpers.checks.verdict import MIME, Mistake, Verdict

CUBE = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x**2
"""


def notebook(source: str) -> dict:
    """A namespace as a notebook leaves it after running a cell with ``source``."""
    namespace = {"__name__": "__main__", "torch": torch, "Tensor": Tensor, "np": np}
    filename = f"<cell {abs(hash(source))}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace


def cube(source: str) -> Verdict:
    return registration.check_cube.examine(notebook(source))


def test_a_right_answer_passes_with_values_a_grader_can_compare() -> None:
    verdict = cube(CUBE)
    assert verdict.status == "passed"
    tensors = [fact for fact in verdict.facts if fact["kind"] == "tensor"]
    assert tensors and all(fact["values"] and fact["rtol"] > 0 for fact in tensors if 0 not in fact["shape"])
    json.dumps(verdict.record(), allow_nan=False)


def test_values_depend_on_the_seed(monkeypatch) -> None:
    first = cube(CUBE).facts
    assert first == cube(CUBE).facts
    monkeypatch.setenv("COURSE_SEED", "7")
    assert first != cube(CUBE).facts
    monkeypatch.setenv("COURSE_SEED", "seven")
    with pytest.raises(ValueError, match="COURSE_SEED is 'seven'"):
        cube(CUBE)


LAST_LINES = CUBE[CUBE.index("        (x,)") :]
STUBS = {
    "a value": "Cube = ...",
    "a class": "class Cube(torch.autograd.Function):\n    '''y = x ** 3'''\n    ...",
    "a method": CUBE.replace(LAST_LINES, "        ..."),
}


@pytest.mark.parametrize("stub", STUBS.values(), ids=STUBS)
def test_a_stub_is_not_started(stub: str) -> None:
    verdict = cube(stub)
    assert verdict.status == "not_started" and "..." in verdict.message


@pytest.mark.parametrize(
    ("source", "slug"),
    [
        ("x = 1", "missing-name"),
        (CUBE.replace("grad_output * 3", "3"), "forgot-upstream"),
        (CUBE.replace("return grad_output", "return -grad_output"), "wrong-sign"),
        (CUBE.replace("return grad_output * 3 * x**2", "return None"), "none-gradient"),
        (
            CUBE.replace(
                "return grad_output * 3 * x**2", "return torch.autograd.grad(x**3, x, grad_output)[0]"
            ),
            "autograd-does-it",
        ),
        (CUBE.replace("3 * x**2", "3 * y**2"), "raises"),
        ("from helpers.functions import Cube", "borrowed"),
        ("from helpers.functions import Cube as Reference\nclass Cube(Reference):\n    pass", "borrowed"),
        ("import helpers.functions as f\n" + CUBE.replace("return x**3", "return f.cube(x)"), "borrowed"),
    ],
)
def test_each_way_to_be_wrong_has_its_name_and_a_hint(source: str, slug: str) -> None:
    verdict = cube(source)
    assert (verdict.status, verdict.slug) == ("failed", slug), verdict.text()
    assert verdict.hint and verdict.message


def test_the_learners_own_line_is_shown() -> None:
    verdict = cube(CUBE.replace("3 * x**2", "3 * y**2"))
    assert "NameError: name 'y' is not defined" in verdict.message
    assert "`return grad_output * 3 * y**2`" in verdict.message


def test_yours_and_expected_stand_side_by_side() -> None:
    verdict = cube(CUBE.replace("3 * x**2", "2 * x**2"))
    assert "yours:" in verdict.text() and "expected:" in verdict.text()
    assert "✗" in verdict.html() and "border:2px" in verdict.html(), "a small matrix is drawn as a grid"
    assert "False" not in verdict.text()


def test_a_failed_check_shows_its_verdict_and_raises_in_one_line(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    shown = []
    monkeypatch.setattr("helpers.checks.exam.display", shown.append)
    with pytest.raises(CheckFailed) as failure:
        registration.check_cube(notebook(CUBE.replace("grad_output * 3", "3")))
    assert len(failure.value._render_traceback_()) == 1
    assert shown[0]._repr_mimebundle_()[MIME]["hint"] == "forgot-upstream"


def test_a_check_finds_the_answer_in_the_notebook_that_calls_it(monkeypatch) -> None:
    monkeypatch.setenv("COURSE_PROGRESS", "off")
    monkeypatch.setattr("helpers.checks.exam.display", lambda verdict: None)
    namespace = notebook(CUBE) | {"registration": registration}
    exec("registration.check_cube()", namespace)


DISTURBANCES = {
    "torch.set_default_dtype(torch.float64)": "default dtype",
    "torch.set_grad_enabled(False)": "switched off",
    "torch.autograd.set_detect_anomaly(True)": "anomaly",
    "np.seterr(all='raise')": "np.seterr",
    "import warnings; warnings.simplefilter('error')": "errors",
    "sum = 3": "`sum`",
}


@pytest.mark.parametrize(("disturbance", "named"), DISTURBANCES.items())
def test_changed_global_state_hurts_nobody_and_is_named(disturbance: str, named: str) -> None:
    with warnings.catch_warnings():
        verdict = cube(f"{CUBE}\n{disturbance}")
        assert verdict.status == "passed", verdict.text()
        assert any(named in note for note in verdict.notes), verdict.notes
        assert not cube(CUBE).notes, "and it stays right for the next exercise"
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32


def test_a_shadowed_module_is_put_back_for_the_next_exercise() -> None:
    namespace = notebook(f"{CUBE}\ntorch = 'flame'")
    verdict = registration.check_cube.examine(namespace)
    assert namespace["torch"] is torch
    assert any("`torch`" in note for note in verdict.notes)


def test_random_state_is_as_it_was() -> None:
    torch.manual_seed(5), random.seed(5), np.random.seed(5)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    cube(CUBE)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), np.random.get_state()[1].tolist())


def verdict_of(*facts) -> Verdict:
    """A verdict of an examination that states ``facts``, each a function of the exam."""

    def body(exam: Exam) -> None:
        for fact in facts:
            fact(exam)

    return examine("01_registration/cube", body, {})


@pytest.mark.parametrize(
    ("got", "slug"),
    [
        (torch.tensor([1.0, 2.0]), None),
        (torch.tensor([1.0, 2.0], dtype=torch.float64), "wrong-dtype"),
        (torch.tensor([[1.0, 2.0]]), "wrong-shape"),
        (torch.tensor([1.0, float("nan")]), "wrong-value"),
        (torch.tensor([2.0, 4.0]), "twice"),
        ("text", "not-a-tensor"),
        (None, "none-gradient"),
    ],
)
def test_a_tensor_is_compared_by_kind_then_dtype_then_shape_then_values(got, slug) -> None:
    twice = Mistake("twice", torch.tensor([2.0, 4.0]), "You doubled it.")
    verdict = verdict_of(lambda exam: exam.close("it is right", got, torch.tensor([1.0, 2.0]), [twice]))
    assert (verdict.slug or None) == slug


def test_a_mistake_that_coincides_with_the_right_value_is_not_named() -> None:
    zero = torch.zeros(2)
    same = Mistake("same", zero, "Never shown.")
    verdict = verdict_of(lambda exam: exam.close("it is right", torch.ones(2), zero, [same]))
    assert verdict.slug == "wrong-value"


def test_non_finite_values_survive_the_record() -> None:
    values = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.23456789, -0.0])
    verdict = verdict_of(lambda exam: exam.close("odd values", values, values))
    assert verdict.facts[0]["values"] == ["nan", "inf", "-inf", 1.23457, 0.0]


def test_progress_is_kept_beside_the_work_and_survives_damage(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    folder = tmp_path / "exercises"
    folder.mkdir()
    monkeypatch.chdir(folder)
    progress.note(cube(CUBE))
    assert progress.read(tmp_path) == {"01_registration/cube": "passed"}
    progress.main(["--folder", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "01_registration" in shown and "Next: exercises/01_registration.ipynb" in shown
    progress.store(tmp_path).write_text("{damaged")
    assert progress.read(tmp_path) == {}
    progress.note(cube(CUBE))
    assert progress.read(tmp_path) == {"01_registration/cube": "passed"}


def test_the_summary_counts_points_and_says_what_is_next(monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "_session", {})
    progress.summary("01_registration")
    shown = capsys.readouterr().out
    assert "0 of" in shown and "Next: Register a cube" in shown
    monkeypatch.setattr(
        progress, "_session", {each.check_id: "passed" for each in progress.load().exercises()}
    )
    progress.summary("01_registration")
    assert "All done. Next: lessons/02_forward_and_ctx.ipynb" in capsys.readouterr().out
