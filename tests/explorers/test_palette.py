"""The palette keeps its promises: contrast, colour blindness, a second cue."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from helpers.explorers.palette import GROUND, MEANINGS, MUTED, PALETTE, PANEL, TEXT, css_colours, stylesheet

INKS = (TEXT, MUTED, *MEANINGS)

# Viénot, Brettel and Mollon (1999) and Machado et al. (2009, severity 1), for linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""
    bright, dim = sorted((linear(each) @ [0.2126, 0.7152, 0.0722] for each in (one, other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(to_xyz @ rgb, 1e-6, 1) / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_contrast_formula_knows_the_extremes():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") < 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ground", [GROUND, PANEL], ids=lambda ink: ink.name)
@pytest.mark.parametrize("ink", INKS, ids=lambda ink: ink.name)
def test_text_in_every_ink_is_readable(ink, ground, theme):
    assert contrast(getattr(ink, theme), getattr(ground, theme)) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_meanings_stay_apart_for_colour_blind_readers(blindness, theme):
    seen = {
        ink.name: lab(np.clip(BLINDNESS[blindness] @ linear(getattr(ink, theme)), 0, 1)) for ink in MEANINGS
    }
    distances = {
        (one, other): float(np.linalg.norm(seen[one] - seen[other]))
        for one, other in itertools.combinations(seen, 2)
    }
    assert min(distances.values()) >= 12, distances


def test_each_meaning_has_a_second_cue():
    assert len({str(ink.dash) for ink in MEANINGS}) == len(MEANINGS)
    assert len({ink.marker for ink in MEANINGS}) == len(MEANINGS)


def test_colours_of_pictures_become_variables_of_both_themes():
    sheet = stylesheet()
    for ink in PALETTE.values():
        assert css_colours(f"fill: {ink.light}") == f"fill: var(--cg-{ink.name})"
        assert sheet.count(f"--cg-{ink.name}:") == 2
    assert css_colours("fill: #123456") == "fill: #123456"
