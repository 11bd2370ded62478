"""The stage every explorer stands on: controls, a picture, and the sentence that goes with it.

A picture is one matplotlib figure, set once. Its axes and labels are sent to the page once; what moves is a short list
of artists, drawn alone for each state (a millisecond or two, because nothing else is drawn again) as SVG text. The page
puts that text over the axes. The same figure gives the still for pages without a front end.

``FrameExplorer`` draws every state ahead, and the page switches between them by itself: no kernel is asked, so it is
immediate, cannot flicker, works while the kernel is busy, and works in a static export. ``FigureExplorer`` is for
pictures with too many states: the kernel draws the one asked for, and then those to which the same control can go on.

The page's side is ``stage.js``, written for `anywidget <https://anywidget.dev>`_ with the browser's own labelled
controls: the sliders of ipywidgets have no name that a screen reader could read.
"""

from __future__ import annotations

import base64
import io
import itertools
import math
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import anywidget
import matplotlib
import numpy as np
import traitlets
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from PIL import Image

from . import palette
from .palette import GROUND, MUTED, RULE, TEXT

HERE = Path(__file__).parent
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
STILL_SCALE = 1.5  # pixels of the still per CSS pixel: sharp on a laptop, small in git
STILL_COLOURS = 128  # a picture of a few flat colours and their soft edges: a third of the bytes
MAX_FRAMES = 260
AHEAD = 0.2  # seconds for which the kernel may draw states that nobody has asked for yet
NO_METADATA = ("Date", "Creator", "Format", "Type")

STYLE = {
    "figure.facecolor": GROUND.light,
    "axes.facecolor": "none",
    "savefig.facecolor": GROUND.light,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlecolor": TEXT.light,
    "axes.labelsize": 13,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "legend.fontsize": 12,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "text.color": TEXT.light,
    "axes.edgecolor": MUTED.light,
    "axes.labelcolor": MUTED.light,
    "xtick.color": MUTED.light,
    "ytick.color": MUTED.light,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE.light,
    "grid.linewidth": 0.8,
    "hatch.color": MUTED.light,
    "hatch.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 2.2,
    "svg.fonttype": "none",
    "svg.hashsalt": "course",
    "path.simplify_threshold": 0.2,
}

styled = matplotlib.rc_context(STYLE)


@dataclass(frozen=True)
class Control:
    """Something the reader can set: always one of a short list.

    Attributes:
        name: what it is called in Python, ``explorer["name"]``.
        label: what it is called on the page.
        options: the values it can take.
        labels: the same as text, one for each option (default: ``str`` of each).
        start: position in ``options`` at which it starts.
        kind: ``"slider"``, ``"choice"`` (a few named options) or ``"switch"`` (off, on).
    """

    name: str
    label: str
    options: Sequence[Any]
    labels: Sequence[str] = ()
    start: int = 0
    kind: str = "slider"

    def __post_init__(self) -> None:
        if not self.options:
            raise ValueError(f"control {self.name!r} has no options; give at least one.")
        if self.kind not in ("slider", "choice", "switch"):
            raise ValueError(
                f"kind of control {self.name!r} is {self.kind!r}; allowed: slider, choice, switch."
            )
        if self.kind == "switch" and len(self.options) != 2:
            raise ValueError(f"switch {self.name!r} needs two options, off and on; got {len(self.options)}.")
        if self.labels and len(self.labels) != len(self.options):
            raise ValueError(
                f"control {self.name!r} has {len(self.options)} options but {len(self.labels)} labels."
            )
        if not 0 <= self.start < len(self.options):
            raise ValueError(
                f"start of control {self.name!r} is {self.start}; allowed: 0 to {len(self.options) - 1}."
            )

    def position(self, value: Any) -> int:
        """The position of ``value`` in the options; of the nearest one if they are numbers.

        Raises:
            ValueError: ``value`` is not among options that are not numbers.
        """
        if value in self.options:
            return list(self.options).index(value)
        numbers = all(isinstance(each, (int, float)) for each in (value, *self.options))
        if not numbers or self.kind == "switch":
            raise ValueError(f"{self.name}={value!r} is not one of {list(self.options)}.")
        return min(range(len(self.options)), key=lambda at: abs(self.options[at] - value))

    @property
    def words(self) -> list[str]:
        """Each option as text."""
        return list(self.labels) or [str(each) for each in self.options]

    def as_json(self) -> dict:
        """What the page needs to know."""
        return {"name": self.name, "label": self.label, "labels": self.words, "kind": self.kind}


class Stage(anywidget.AnyWidget):
    """What travels to the page; ``stage.js`` is its other half.

    Attributes:
        base: what stays, as SVG.
        parts: pieces of SVG that move; frames share what they have in common.
        frames: for each state that is drawn, which parts show it.
        captions: for each state that is drawn, the sentence that goes with it.
    """

    _esm = HERE / "stage.js"
    _css = palette.stylesheet() + (HERE / "stage.css").read_text(encoding="utf-8")

    title = traitlets.Unicode().tag(sync=True)
    controls = traitlets.List().tag(sync=True)
    positions = traitlets.List().tag(sync=True, echo_update=False)  # the page knows what it asked for
    size = traitlets.List().tag(sync=True)
    base = traitlets.Unicode().tag(sync=True)
    parts = traitlets.List().tag(sync=True)
    frames = traitlets.Dict().tag(sync=True)
    captions = traitlets.Dict().tag(sync=True)
    interval = traitlets.Int(0).tag(sync=True)

    @property
    def picture(self) -> str:
        """What moves, as SVG, at the present positions."""
        return "".join(self.parts[part] for part in self.frames[key(self.positions)])

    @property
    def caption(self) -> str:
        """The sentence at the present positions."""
        return self.captions[key(self.positions)]


def key(state: Iterable[int]) -> str:
    """The name of a state, the positions of all controls, in ``frames`` and ``captions``."""
    return ",".join(map(str, state))


@lru_cache(4096)
def _measured(words: str, font: FontProperties, formula: bool | str) -> tuple[float, float, float]:
    return text_to_path.get_text_width_height_descent(words, font, formula)


class Renderer(RendererSVG):
    """matplotlib's, for artists drawn one by one: it remembers the size of words from one artist to the next."""

    def get_text_width_height_descent(self, s: str, prop: FontProperties, ismath: bool | str) -> tuple:
        return _measured(s, prop, ismath)


@dataclass
class Picture:
    """A figure in two layers: what stays, and the artists that move.

    Attributes:
        size: width and height in CSS pixels.
        moving: the artists that the moving layer shows now. An explorer may replace its contents from state to state;
            what was once passed to ``move`` and is not in the list is not shown at all.
    """

    size: tuple[int, int]
    moving: list[Artist] = field(default_factory=list)

    def __post_init__(self) -> None:
        # At 72 dots per inch one SVG unit is one point is one CSS pixel: a font of 12 is 12 pixels tall.
        self.figure = Figure(figsize=(self.size[0] / 72, self.size[1] / 72), dpi=72)
        self._known: WeakSet[Artist] = WeakSet()
        self._drawn: WeakKeyDictionary[Artist, str] = WeakKeyDictionary()

    def move(self, *artists: Artist) -> Artist:
        """Put artists on the moving layer; returns the first, so that it can be kept in one line."""
        self.moving.extend(artists)
        self._known.update(artists)
        return artists[0]

    def base(self) -> str:
        """SVG of everything that stays."""
        for artist in (*self._known, *self.moving):
            artist.set_animated(True)
        return self._svg([self.figure])

    def layer(self) -> list[str]:
        """SVG of each moving artist as it is now; one that did not change since it was drawn is not drawn again."""
        parts = []
        for artist in sorted(self.moving, key=lambda each: each.get_zorder()):
            if artist.stale or artist not in self._drawn:
                self._drawn[artist] = self._svg([artist])
            parts.append(self._drawn[artist])
        return [part for part in parts if part]

    def png(self) -> bytes:
        """Both layers as one PNG."""
        for artist in self._known:
            artist.set_visible(artist in self.moving)
        for artist in self.moving:
            artist.set_animated(False)
        drawn, small = io.BytesIO(), io.BytesIO()
        self.figure.savefig(drawn, dpi=72 * STILL_SCALE)
        for artist in self._known:
            artist.set_visible(True)
        with Image.open(drawn) as image:
            few = image.convert("RGB").quantize(STILL_COLOURS, dither=Image.Dither.NONE)
        few.save(small, "png", optimize=True)
        return small.getvalue()

    def _svg(self, artists: Iterable[Artist]) -> str:
        file = io.StringIO()
        renderer = Renderer(*self.size, file, image_dpi=72, metadata=dict.fromkeys(NO_METADATA))
        for artist in artists:
            artist.draw(renderer)
        renderer.finalize()
        return _inner(file.getvalue())


def _inner(svg: str) -> str:
    """The contents of matplotlib's SVG document, slimmed, in the palette's CSS variables."""
    body = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    body = re.sub(
        r"<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL
    )
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    # A reference finds the first element with its id on the page: `stage.js` makes each id its view's own.
    body = re.sub(r'(\bid="|url\(#|href="#)', r"\1cg-id-", body)
    body = re.sub(r' transform="rotate\(-0 [^"]*"', "", body)
    body = re.sub(r"[ \n]+", " ", body).replace("> <", "><").strip()
    # Numbers inside tags, never those in the text between them; a tenth of a pixel is enough.
    body = re.sub(
        r"\d+\.\d{2,}(?=[^<>]*>)", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), body
    )
    return palette.css_colours(body)


def axes(
    figure: Figure, place: tuple[float, float, float, float], title: str = "", **properties: Any
) -> Axes:
    """Axes at ``place`` (left, bottom, width, height as parts of the figure) in the course's style."""
    made = figure.add_axes(place, **properties)
    if title:
        made.set_title(title, pad=10)
    made.tick_params(length=0, pad=6)
    return made


def change(artist: Artist, **properties: Any) -> None:
    """Set what differs, and nothing else: an artist left alone is not drawn again."""
    for name, value in properties.items():
        if not np.array_equal(getattr(artist, f"get_{name}")(), value):
            getattr(artist, f"set_{name}")(value)


class Explorer:
    """A picture with controls.

    A subclass sets ``title`` and ``size``, calls ``super().__init__(*controls)``, and says how to ``stage`` the
    picture, how to ``move`` it to the present state, and how to ``describe`` that state in one sentence.

    Attributes:
        title: the heading on the page.
        size: of the picture, in CSS pixels.
        interval: milliseconds per frame of the Play button, which moves the first control; 0 for no button.
        controls: by name, in the order in which they stand on the page.
        positions: the position of each control; ``choose`` sets it by value.
    """

    title = ""
    size = (720, 380)
    interval = 0

    def __init__(self, *controls: Control) -> None:
        self.controls = {control.name: control for control in controls}
        self.positions = {control.name: control.start for control in controls}

    def stage(self, picture: Picture) -> None:
        """Draw what stays on ``picture.figure``, and make the moving artists with ``picture.move``."""
        raise NotImplementedError

    def move(self, picture: Picture) -> None:
        """Bring the moving artists to the present state."""
        raise NotImplementedError

    def describe(self) -> str:
        """One sentence that says what the picture shows at the present state."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        """The present value of a control."""
        return self.controls[name].options[self.positions[name]]

    def choose(self, **values: Any) -> Explorer:
        """Set controls by value (numbers: the nearest option) and return the explorer.

        Raises:
            ValueError: there is no such control, or no such option.
        """
        for name, value in values.items():
            if name not in self.controls:
                raise ValueError(f"there is no control {name!r}; there are {list(self.controls)}.")
            self.positions[name] = self.controls[name].position(value)
        if "widget" in self.__dict__:
            self.widget.positions = list(self.positions.values())
        return self

    @cached_property
    def picture(self) -> Picture:
        """The figure, staged when first needed."""
        made = Picture(self.size)
        self.stage(made)
        return made

    @styled
    def still(self) -> bytes:
        """The present state as a PNG."""
        self.move(self.picture)
        return self.picture.png()

    @cached_property
    @styled
    def widget(self) -> Stage:
        """What the front end shows; built when first needed."""
        stage = Stage(
            title=self.title,
            controls=[control.as_json() for control in self.controls.values()],
            positions=list(self.positions.values()),
            size=list(self.size),
            interval=self.interval,
            **self._pictures(),
        )
        stage.observe(self._follow, names="positions")
        return stage

    def _pictures(self) -> dict:
        """The pictures the page gets at the start, as traits of ``Stage``."""
        raise NotImplementedError

    def _follow(self, change: dict) -> None:
        self.positions = dict(zip(self.controls, change["new"], strict=True))

    def _frame(self) -> tuple[list[str], str]:
        """What moves, and the sentence, at the present state."""
        self.move(self.picture)
        return self.picture.layer(), self.describe()

    def _frames(self, states: Iterable[Sequence[int]], seconds: float = math.inf) -> dict:
        """The frames of some states as traits of ``Stage``; when the time is up, no more of them."""
        kept, until = self.positions, time.monotonic() + seconds
        parts: dict[str, int] = {}
        frames, captions = {}, {}
        for state in states:
            self.positions = dict(zip(self.controls, state, strict=True))
            layer, captions[key(state)] = self._frame()
            frames[key(state)] = [parts.setdefault(part, len(parts)) for part in layer]
            if time.monotonic() > until:
                break
        self.positions = kept
        return {"parts": list(parts), "frames": frames, "captions": captions}

    def _repr_mimebundle_(self, **_: Any) -> dict:
        """The widget for a front end, a still for a page without one, a sentence for a reader or a test of text."""
        return {
            "text/plain": self.describe(),
            "image/png": base64.b64encode(self.still()).decode(),
            WIDGET_VIEW: {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id},
        }


class FrameExplorer(Explorer):
    """An explorer whose every state is drawn ahead; the page switches between them without the kernel."""

    def _pictures(self) -> dict:
        ranges = [range(len(control.options)) for control in self.controls.values()]
        states = list(itertools.product(*ranges))
        if len(states) > MAX_FRAMES:
            raise ValueError(
                f"{type(self).__name__} has {len(states)} states; drawn ahead are at most {MAX_FRAMES}. "
                "Give its controls fewer options."
            )
        return self._frames(states) | {"base": self.picture.base()}


class FigureExplorer(Explorer):
    """An explorer with too many states to draw ahead: the kernel draws them when they are asked for.

    It sends the state asked for at once, and then those to which the same control can go on, the nearest first, as many
    as a fifth of a second allows. So the first move of a control asks the kernel, and the next ones, as a rule, do not.
    While a drawing is on its way the page keeps only the last position asked for (ipywidgets sends one message at a
    time), so a fast hand never waits for stale pictures.
    """

    def _pictures(self) -> dict:
        return self._frames([list(self.positions.values())]) | {"base": self.picture.base()}

    def _frame(self) -> tuple[list[str], str]:
        try:
            return super()._frame()
        except Exception as error:  # the picture of another state would be a lie
            state = ", ".join(
                f"{control.label} {control.words[self.positions[name]]}"
                for name, control in self.controls.items()
            )
            return [], f"Nothing can be drawn at {state}: {type(error).__name__}: {error}"

    @styled
    def _follow(self, change: dict) -> None:
        super()._follow(change)
        if key(change["new"]) not in self.widget.frames:
            self._send([change["new"]])
            self._send(self._ahead(change["old"], change["new"]), AHEAD)

    def _send(self, states: Iterable[Sequence[int]], seconds: float = math.inf) -> None:
        drawn = self._frames(states, seconds)
        with self.widget.hold_sync():
            for name, value in drawn.items():
                setattr(self.widget, name, value)

    def _ahead(self, old: list[int], new: list[int]) -> Iterable[list[int]]:
        """The states to which the control that moved can go on, the nearest first."""
        moved = next(at for at, (before, after) in enumerate(zip(old, new, strict=True)) if before != after)
        options = range(len(list(self.controls.values())[moved].options))
        for position in sorted(options, key=lambda each: abs(each - new[moved])):
            yield [*new[:moved], position, *new[moved + 1 :]]
