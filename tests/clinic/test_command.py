"""``course diagnose`` from a shell: what it prints and how it ends."""

from __future__ import annotations

import json
import textwrap

import pytest

from helpers.clinic.command import main

FILE = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output

class Wrong(Square):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return x * grad_output

inputs = (torch.tensor([1.0, 2.0], dtype=torch.double, requires_grad=True),)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text(FILE + textwrap.dedent("def make():\n    return Wrong.apply, inputs\n"))
    return path


def test_a_healthy_function_ends_with_zero(file, capsys):
    assert main([f"{file}:Square"]) == 0
    assert "Square.apply(x: float64[2]): healthy" in capsys.readouterr().out


def test_findings_end_with_one(file, capsys):
    assert main([f"{file}:Wrong"]) == 1
    assert "wrong-gradient" in capsys.readouterr().out


def test_json(file, capsys):
    assert main([f"{file}:Wrong", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["slug"] == "wrong-gradient"


def test_a_maker_of_function_and_inputs(tmp_path, capsys):
    path = tmp_path / "ops.py"
    path.write_text(FILE.replace("inputs = ", "sample = ") + "def make():\n    return Wrong.apply, sample\n")
    assert main([f"{path}:make"]) == 1
    assert main([f"{path}:Square", "--inputs", "sample"]) == 0
    assert main([f"{path}:Square"]) == 2
    assert "has no 'inputs'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{file}", "FILE.py:NAME"),
        ("{file}:Nothing", "defines no 'Nothing'"),
        ("missing.py:Square", "no file"),
    ],
)
def test_what_cannot_be_examined_ends_with_two(file, capsys, target, message):
    target = target.format(file=file)
    assert main([target]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_does_not_import(tmp_path, capsys):
    path = tmp_path / "broken.py"
    path.write_text("import nowhere_to_be_found")
    assert main([f"{path}:Square", "--format", "json"]) == 2
    assert "cannot be imported" in json.loads(capsys.readouterr().out)["problem"]


def test_a_bad_time_limit(file, capsys):
    assert main([f"{file}:Square", "--seconds", "0"]) == 2
    assert "seconds must be positive" in capsys.readouterr().err
