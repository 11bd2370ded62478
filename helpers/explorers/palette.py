"""One palette for every explorer: each meaning has a colour in both themes and a second cue beside it.

Pictures are drawn with the light colours; on the page each becomes a CSS variable, so one picture serves both of
JupyterLab's themes. Hues start from Okabe and Ito's set (https://jfly.uni-koeln.de/color/), darkened or lightened until
text in them has a contrast of at least 4.5 : 1; a test holds contrast, and distance under simulated colour blindness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)  # one object for each meaning: quick to compare and to look up
class Ink:
    """A colour with a meaning.

    Attributes:
        name: its CSS variable is ``--cg-<name>``.
        light, dark: ``#rrggbb`` on the light and on the dark ground.
        meaning: what it stands for in every picture.
        dash: matplotlib line style, the second cue of lines.
        marker: matplotlib marker, the second cue of points.
    """

    name: str
    light: str
    dark: str
    meaning: str
    dash: str | tuple = "-"
    marker: str = ""

    @property
    def line(self) -> dict:
        """Keyword arguments for ``ax.plot`` of a curve."""
        return {"color": self.light, "linestyle": self.dash}

    @property
    def point(self) -> dict:
        """Keyword arguments for ``ax.plot`` of a single marked point."""
        return {
            "color": self.light,
            "marker": self.marker,
            "linestyle": "none",
            "markersize": 9,
            "markeredgecolor": GROUND.light,
            "markeredgewidth": 1.5,
        }


GROUND = Ink("ground", "#ffffff", "#15181d", "the page")
PANEL = Ink("panel", "#f2f4f7", "#22272e", "a quiet box on the page")
RULE = Ink("rule", "#d3d9e0", "#3d4550", "grid lines and frames")
MUTED = Ink("muted", "#566070", "#a9b4c2", "axes, notes, and what is not the subject")
TEXT = Ink("text", "#1a1f26", "#f0f3f6", "text")

FORWARD = Ink("forward", "#0b62b0", "#62b0ff", "forward values", "-", "o")
BACKWARD = Ink("backward", "#b04a00", "#ff9a4d", "backward gradients", (0, (6, 2)), "v")
CUSTOM = Ink("custom", "#9a2779", "#f08fd4", "a custom node or rule", (0, (6, 2, 1.5, 2)), "D")
CHECK = Ink("check", "#00745a", "#3ed0a4", "a numeric check", (0, (1.5, 1.5)), "s")

MEANINGS = (FORWARD, BACKWARD, CUSTOM, CHECK)
PALETTE = {ink.name: ink for ink in (GROUND, PANEL, RULE, MUTED, TEXT, *MEANINGS)}

_BY_COLOUR = {ink.light: ink for ink in PALETTE.values()}


def css_colours(svg: str) -> str:
    """Replace the palette's colours in SVG text by their CSS variables."""
    return re.sub(
        r"#[0-9a-f]{6}\b",
        lambda found: f"var(--cg-{_BY_COLOUR[found[0]].name})" if found[0] in _BY_COLOUR else found[0],
        svg,
    )


def stylesheet() -> str:
    """The CSS variables, for light and for dark pages (JupyterLab, its static export, VS Code)."""
    light, dark = (
        " ".join(f"--cg-{ink.name}: {getattr(ink, theme)};" for ink in PALETTE.values())
        for theme in ("light", "dark")
    )
    dark_pages = ('[data-jp-theme-light="false"] .cg', ".vscode-dark .cg", ".theme-dark .cg")
    return f".cg {{ {light} }}\n{', '.join(dark_pages)} {{ {dark} }}\n"
