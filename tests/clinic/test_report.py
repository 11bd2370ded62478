"""The report reads the same every time, in every form."""

from __future__ import annotations

import json

import pytest
import torch
from bs4 import BeautifulSoup
from torch.autograd import Function

from helpers.clinic import diagnose
from helpers.clinic.entries import ENTRIES
from helpers.clinic.report import SEVERITIES

from .cases import sick
from .cases.case import noise


class Sine(Function):
    """Forgets the upstream gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return x.cos()


@pytest.fixture(scope="module")
def report():
    return diagnose(Sine, torch.tensor([0.0, 1.0], dtype=torch.double, requires_grad=True))


def test_the_text_is_this(report):
    # Line numbers move whenever this file does.
    finding = report.findings[0]
    lines = [line for line in finding.text().split("\n") if not line.startswith("    where")]
    assert lines[:4] == [
        "✖ error [ignores-upstream] the gradient of x does not depend on grad_output",
        "    evidence   gradient for v    [1, 0.5403]",
        "               gradient for 2·v  [1, 0.5403]",
        "               should be         [2, 1.081]",
    ]
    assert report.headline == "Sine.apply(x: float64[2]): not healthy (1 error, 1 note)"
    assert finding.where.startswith("Sine.backward (test_report.py:")


def test_two_examinations_read_the_same(report):
    torch.manual_seed(99)
    again = diagnose(Sine, torch.tensor([0.0, 1.0], dtype=torch.double, requires_grad=True))
    assert again.text() == report.text() == str(report) == repr(report)
    assert again.html() == report.html()


def test_worst_comes_first():
    for case in sick.CASES[::7]:
        fn, inputs = case.make()
        ranks = [SEVERITIES.index(finding.severity) for finding in diagnose(fn, *inputs).findings]
        assert ranks == sorted(ranks)


def test_the_lines_that_reproduce_a_finding_run_and_show_it(report, capsys):
    exec(
        report.findings[0].evidence.reproduce,
        {"fn": Sine.apply, "inputs": (torch.tensor([0.0, 1.0]).double().requires_grad_(),)},
    )
    assert capsys.readouterr().out.count("[1.0000, 0.5403]") == 2


def test_json_holds_the_same(report):
    data = json.loads(json.dumps(report.as_dict()))
    assert [finding["slug"] for finding in data["findings"]] == ["ignores-upstream", "no-setup-context"]
    assert data["healthy"] is False and data["examined"] is True


def test_html_has_a_text_alternative_and_takes_the_themes_colours(report):
    page = BeautifulSoup(report.html(), "html.parser")
    section = page.find("section")
    assert section["aria-label"] == report.headline
    for finding, card in zip(report.findings, page.find_all("details"), strict=True):
        for word in (finding.severity, finding.slug, finding.title, finding.cure, finding.explanation):
            assert word.replace("`", "") in card.get_text()
    style = page.find("style").string
    assert "var(--jp-content-font-color1" in style and "background:#" not in style
    bundle = report._repr_mimebundle_()
    assert bundle["text/plain"] == report.text() and bundle["text/html"] == report.html()


def test_html_is_escaped():
    def fn(x):
        raise ValueError("<script>alert(1)</script>")

    assert "<script>" not in diagnose(fn, noise(2)).html()


def test_code_typed_into_a_notebook_has_no_line_numbers():
    space: dict[str, object] = {"torch": torch}
    source = (
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return 2 * x\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return g\n"
    )
    exec(compile(source, "/some/where/ipykernel_123/456.py", "exec"), space)
    report = diagnose(space["Twice"], noise(2))
    assert report.findings[0].where == "Twice.backward"
    assert "ipykernel" not in report.text()


def test_explanations_come_from_the_catalogue(report):
    assert report.findings[0].cure == ENTRIES["ignores-upstream"].cure


def test_sampling_is_told():
    report = diagnose(torch.sin, noise(100, 100))
    assert report.healthy
    assert any("of 10000 coordinates were sampled" in remark for remark in report.remarks)


@pytest.mark.parametrize("layout", ["strided", "transposed", "expanded"])
def test_a_finding_about_a_layout_is_reproduced_in_that_layout(layout, capsys):
    arranged = {
        "strided": lambda t: t.stride(-1) == 2,
        "transposed": lambda t: t.stride(0) == 1 and t.stride(1) > 1,
        "expanded": lambda t: t.stride(0) == 0,
    }[layout]

    class Picky(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * (3 if arranged(x) else 2) * x

    inputs = (torch.linspace(1, 2, 12).double().reshape(3, 4).requires_grad_(),)
    (finding,) = [each for each in diagnose(Picky, *inputs).findings if each.slug == "assumes-contiguous"]
    assert finding.title.endswith(f"when the inputs are {layout}")
    exec(finding.evidence.reproduce, {"fn": Picky.apply, "inputs": inputs})
    plain, laid = capsys.readouterr().out.split("Backward>)")[1:]
    assert plain.partition("grad_fn")[0] != laid.partition("grad_fn")[0]
