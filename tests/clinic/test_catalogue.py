"""The catalogue knows every finding, its examples are what they say, and the page is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.clinic import diagnose
from helpers.clinic.catalogue import ENTRIES, example, main, render

PAGE = Path(__file__).parents[2] / "docs" / "clinic.md"
SLUGS = {
    *("wrong-gradient-count", "gradient-shape", "missing-gradient", "wrong-gradient", "ignores-upstream"),
    *("tensor-on-ctx", "saved-intermediate", "undeclared-once-differentiable", "inplace-input"),
    *("inplace-grad-output", "inplace-saved", "assumes-contiguous", "mutable-state", "nondeterministic"),
    *("nan-gradient", "non-finite-forward", "dtype-loss", "graph-inside-forward", "legacy-style"),
    *("unhandled-none", "raises"),
    *("kink", "low-precision-check", "no-setup-context", "needless-gradient", "declared-surrogate"),
}


def test_it_has_an_entry_for_every_finding():
    assert set(ENTRIES) == SLUGS


@pytest.mark.parametrize("slug", sorted(SLUGS))
def test_the_sick_example_shows_the_finding_and_the_cured_one_does_not(slug):
    module = example(slug)
    fn, inputs = module.sick()
    report = diagnose(fn, *inputs)
    assert slug in report.slugs
    if ENTRIES[slug].severity == "note":
        assert report.healthy
    if hasattr(module, "cured"):
        fn, inputs = module.cured()
        report = diagnose(fn, *inputs)
        assert report.healthy, report.text()
        assert slug not in report.slugs


@pytest.mark.parametrize("slug", sorted(s for s, entry in ENTRIES.items() if entry.severity != "note"))
def test_every_fault_has_a_cure(slug):
    assert hasattr(example(slug), "cured")


def test_the_page_is_what_the_catalogue_renders(tmp_path):
    assert main(["--out", str(tmp_path / "page.md")]) == 0
    assert PAGE.read_text(encoding="utf-8") == render() == (tmp_path / "page.md").read_text(encoding="utf-8")
