"""The course's own first notebook, graded with a key: full marks, none, and attacks that know torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from helpers.grading import key as keys
from helpers.grading.classroom import Job, grade
from helpers.grading.runner import Limits
from helpers.grading.submission import pristine
from tests.grading.conftest import earned

ROOT = Path(__file__).resolve().parents[2]
NAME = "01_registration"
SEED = 80217

NO_UPSTREAM = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x): return x**3

    @staticmethod
    def setup_context(ctx, inputs, output): ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output): return 3 * ctx.saved_tensors[0] ** 2
"""

ATTACKS = {
    "nothing": "",
    "comparisons always true": "torch.allclose = torch.equal = torch.autograd.gradcheck = lambda *a, **k: True\n"
    "torch.testing.assert_close = lambda *a, **k: None",
    "isclose always true": "torch.isclose = lambda a, b, **k: torch.ones_like(a, dtype=torch.bool)",
    "tensors that look alike": "torch.Tensor.__repr__ = lambda self, **k: 'tensor'\n"
    "torch.Tensor.__format__ = lambda self, spec: 'tensor'\ntorch.Tensor.tolist = lambda self: [0.0] * self.numel()",
    "no upstream to forget": "torch.randn = lambda *s, **k: torch.ones(*s, dtype=k.get('dtype'))\n"
    "torch.Tensor.normal_ = lambda self, *a, **k: self.fill_(1)",
    "inputs all zero": "torch.rand = torch.randn = lambda *s, **k: torch.zeros(*s, dtype=k.get('dtype'))",
    "seed of the notebook": "import os\nos.environ['COURSE_SEED'] = '0'",
    "checks replaced": "import sys\nfor name in list(vars(sys)['modules']):\n"
    "    if name.startswith('helpers.checks.'): vars(sys)['modules'][name].check_cube = lambda: None",
    "gradients replaced": "old = torch.autograd.grad\n"
    "torch.autograd.grad = lambda y, x, *a, **k: tuple(torch.zeros_like(each) for each in x)",
}


@pytest.fixture(scope="module")
def reference() -> dict:
    here = pristine(ROOT / "exercises" / f"{NAME}.ipynb")
    return {NAME: keys.reference(here, ROOT / "solutions" / f"{NAME}.ipynb", SEED)}


@pytest.fixture
def marked(reference: dict, tmp_path: Path) -> Callable[..., dict]:
    """Grade one of the course's notebooks, with the given source as the answer to ``cube``."""

    def run(folder: str, cube: str | None = None) -> dict:
        notebook = nbformat.read(ROOT / folder / f"{NAME}.ipynb", as_version=4)
        for cell in notebook.cells:
            if cube is not None and cell.metadata.get("course", {}) == {"exercise": "cube", "role": "answer"}:
                cell.source = cube
        path = tmp_path / f"{NAME}.ipynb"
        nbformat.write(notebook, path)
        return grade(Job("ada", "ada", str(path), "", str(ROOT / "exercises"), reference, SEED, Limits()))

    return run


def test_the_solution_gets_full_marks_and_the_stub_none(marked: Callable) -> None:
    solved, untouched = marked("solutions"), marked("exercises")
    assert solved["status"] == "graded" and solved["earned"] == solved["possible"] > 10
    assert untouched["status"] == "graded" and untouched["earned"] == 0
    assert {each["verdict"] for each in untouched["marks"]} == {"not_started"}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_wrong_backward_earns_nothing_whatever_is_done_to_torch(attack: str, marked: Callable) -> None:
    row = marked("solutions", f"{attack}\n{NO_UPSTREAM}")
    assert earned(row)["cube"] == 0, row["marks"][0]
    assert row["status"] != "infra_error", row["message"]


def test_a_right_answer_after_a_harmless_change_of_torch_keeps_its_points(marked: Callable) -> None:
    right = NO_UPSTREAM.replace("return 3 *", "return grad_output * 3 *")
    row = marked("solutions", f"torch.set_printoptions(precision=2)\ntorch.manual_seed(5)\n{right}")
    assert row["earned"] == row["possible"], [each for each in row["marks"] if not each["earned"]]
