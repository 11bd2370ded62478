"""Every Function of the corpus is named as it should be: sick ones by their faults, healthy ones clean."""

from __future__ import annotations

import contextlib
import io

import pytest

from helpers.clinic import assert_healthy, diagnose
from helpers.clinic.guard import settings_guard

from .cases import healthy, sick


def named(cases):
    """Return the cases as parameters with their names."""
    return [pytest.param(case, id=case.name) for case in cases]


def test_the_corpus_is_large_enough():
    assert len(sick.CASES) >= 40
    assert len(healthy.CASES) >= 25


@pytest.mark.parametrize("case", named(sick.CASES))
def test_the_sick_are_named(case):
    fn, inputs = case.make()
    report = diagnose(fn, *inputs)
    assert set(case.expected) <= set(report.slugs), report.text()
    assert not report.healthy
    for finding in report.findings:
        assert finding.evidence.numbers
        compile(finding.evidence.reproduce, "reproduce", "exec")


@pytest.mark.parametrize("case", named(sick.CASES[::15]))
def test_the_pytest_helper_fails_for_the_sick_unless_allowed(case):
    fn, inputs = case.make()
    with pytest.raises(AssertionError, match=case.expected[0]):
        assert_healthy(fn, *inputs)
    slugs = diagnose(fn, *inputs).slugs
    assert assert_healthy(fn, *inputs, allow=slugs).slugs == slugs


def test_the_pytest_helper_fails_when_nothing_could_be_examined():
    with pytest.raises(AssertionError, match="could not be examined"):
        assert_healthy(lambda a: a, 3)


@pytest.mark.parametrize("case", named(healthy.CASES))
def test_the_healthy_are_left_in_peace(case):
    fn, inputs = case.make()
    report = assert_healthy(fn, *inputs)
    assert report.healthy
    assert set(case.expected) <= set(report.slugs), report.text()
    assert not any("could not finish" in remark for remark in report.remarks), report.remarks


@pytest.mark.parametrize(
    ("case", "guess"),
    [
        ("sign_turned", "sign is the wrong way round"),
        ("factor_two_dropped", "constant factor of 1/2"),
        ("factor_of_the_output_missing", "a factor the output is missing"),
        ("softmax_diagonal_only", "only the diagonal"),
        ("jacobian_not_transposed", "the Jacobian is transposed"),
        ("weight_gradient_transposed", "it is transposed"),
        ("gradients_swapped", "the inputs are swapped"),
        ("mean_where_a_sum_belongs", "a mean where a sum belongs"),
        ("first_row_instead_of_the_sum", "only the first of 4"),
        ("second_output_forgotten", "the share of output 1 is missing"),
        ("upstream_averaged", "averaged before it is used"),
        ("conjugate_forgotten", "the conjugate of the local derivative is missing"),
        ("straight_through_not_declared", "forward does not change with it"),
        ("extra_term_forgotten", "is missing"),
    ],
)
def test_the_mistake_is_guessed_from_the_numbers(case, guess):
    fn, inputs = next(known.make() for known in sick.CASES if known.name == case)
    report = diagnose(fn, *inputs)
    finding = next(finding for finding in report.findings if finding.slug == "wrong-gradient")
    assert guess in finding.title
    assert "tested guess" in dict(finding.evidence.numbers)


@pytest.mark.parametrize("case", named(sick.CASES))
def test_the_lines_under_a_finding_show_something(case):
    fn, inputs = case.make()
    for finding in diagnose(fn, *inputs).findings:
        fn, inputs = case.make()
        lines, shown, unknown = finding.evidence.reproduce, io.StringIO(), None
        try:
            with settings_guard(), contextlib.redirect_stdout(shown):
                exec(lines, {"fn": fn, "inputs": inputs})
        except NameError as error:
            unknown = error.name
        except BaseException as error:  # SystemExit, too: what is raised is what they show
            shown.write(repr(error))
        # Only a name of the reader's own, such as a setting of theirs, may be unknown here.
        assert unknown not in ("torch", "inputs", "out", "v"), lines
        assert unknown or shown.getvalue(), lines
