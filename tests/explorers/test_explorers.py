"""What all explorers promise: two pictures and a sentence, small and quick, without a browser."""

from __future__ import annotations

import io
import json
import re
import time

import matplotlib.image
import pytest
import torch

from helpers.explorers import (
    DeltaExplorer,
    EpsilonExplorer,
    GraphStepper,
    JacobianExplorer,
    LossMixer,
    MagnitudeExplorer,
    SavedTensors,
)
from helpers.explorers.stage import AHEAD, WIDGET_VIEW, Control, FigureExplorer, FrameExplorer, key
from helpers.functions import Softplus, huber, straight_through_round


def saved_tensors() -> SavedTensors:
    x = torch.linspace(-1, 1, 12).reshape(4, 3).requires_grad_()
    return SavedTensors(
        {"operators": lambda x: x * x.sigmoid(), "Softplus": lambda x: Softplus.apply(x, 1.0)}, x
    )


def jacobian() -> JacobianExplorer:
    return JacobianExplorer(lambda z: z.softmax(0), torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64))


def stepper(mode: str) -> GraphStepper:
    x, target = (torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (1.3, 0.4))
    return GraphStepper(lambda x, target: huber(straight_through_round(2 * x), target), x, target, mode=mode)


FRAMES = {
    "delta": DeltaExplorer,
    "epsilon": EpsilonExplorer,
    "magnitude": MagnitudeExplorer,
    "saved": saved_tensors,
    "jacobian": jacobian,
    "injection": lambda: stepper("injection"),
    "substitution": lambda: stepper("substitution"),
    "verification": lambda: stepper("verification"),
}
EVERY = FRAMES | {"mixer": LossMixer}


@pytest.fixture(scope="module", params=EVERY)
def explorer(request):
    return EVERY[request.param]()


@pytest.fixture(scope="module", params=FRAMES)
def frames(request):
    return FRAMES[request.param]()


def state_bytes(widget) -> int:
    return len(
        json.dumps({name: getattr(widget, name) for name in widget.keys if name != "layout"}, default=str)
    )


@pytest.mark.parametrize("name", EVERY)
def test_building_is_quick_and_small(name):
    EVERY[name]()  # imports and fonts are paid for once
    started = time.process_time()
    widget = EVERY[name]().widget
    assert state_bytes(widget) <= 1_500_000
    assert time.process_time() - started <= 3.0  # the benchmark holds 1.5 s; a busy machine gets twice that


def test_output_has_widget_still_and_sentence(explorer):
    bundle = explorer._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/png", WIDGET_VIEW}
    assert bundle["text/plain"] == explorer.describe()
    assert bundle[WIDGET_VIEW]["model_id"] == explorer.widget.model_id


def test_still_is_a_picture_and_the_same_each_time(explorer):
    still = explorer.still()
    picture = matplotlib.image.imread(io.BytesIO(still))
    assert picture.shape[1] == explorer.size[0] * 1.5
    assert picture.std() > 0.02
    assert explorer.still() == still
    assert len(still) < 60_000


@pytest.mark.parametrize("name", EVERY)
def test_still_shows_the_present_state_alone_from_the_start(name):
    first, later = EVERY[name](), EVERY[name]()
    later.widget  # noqa: B018 - draws every state, and so makes every artist
    assert first.still() == later.still()


def test_only_the_palette_and_no_small_text(explorer):
    widget = explorer.widget
    svg = widget.base + "".join(widget.parts)
    assert not re.findall(r"#[0-9a-f]{6}", svg)
    sizes = [
        float(size)
        for size in re.findall(r"font-size: ([\d.]+)px|font: [^;]*?([\d.]+)px", svg)
        for size in size
        if size
    ]
    assert min(sizes) >= 12


def test_every_control_is_named(explorer):
    for control in explorer.widget.controls:
        assert control["label"].strip()
        assert all(label.strip() for label in control["labels"])
        assert len(set(control["labels"])) == len(control["labels"])


def test_each_state_has_its_own_frame_and_sentence(frames):
    widget = frames.widget
    count = 1
    for control in widget.controls:
        count *= len(control["labels"])
    assert len(widget.frames) == len(widget.captions) == count
    assert len(set(map(str, widget.frames.values()))) == count
    assert len(set(widget.captions.values())) == count


def test_frames_are_drawn_for_the_state_they_stand_for(frames):
    kept = dict(frames.positions)
    name, control = next(iter(frames.controls.items()))
    frames.positions[name] = len(control.options) - 1
    assert frames.widget.captions[key(frames.positions.values())] == frames.describe()
    frames.positions = kept


def test_the_page_moves_the_state(frames):
    kept = list(frames.widget.positions)
    frames.widget.positions = [0, *kept[1:]]
    assert next(iter(frames.positions.values())) == 0
    frames.widget.positions = kept


class Plain(FrameExplorer):
    """The least an explorer can be, with too many states for frames when asked."""

    def __init__(self, count: int) -> None:
        super().__init__(Control("number", "number", list(range(count))))

    def stage(self, picture):
        panel = picture.figure.add_axes((0, 0, 1, 1))
        self.text = picture.move(panel.text(0.5, 0.5, ""))

    def move(self, picture):
        self.text.set_text(str(self["number"]))

    def describe(self):
        return f"{self['number']}."


def test_too_many_states_are_refused():
    with pytest.raises(ValueError, match="999 states"):
        _ = Plain(999).widget


def test_a_state_that_cannot_be_drawn_says_so():
    class Picky(FigureExplorer):
        stage, move = Plain.stage, Plain.move

        def __init__(self):
            super().__init__(Control("number", "number", [1, 2, 3], ["one", "two", "three"]))

        def describe(self):
            if self["number"] == 2:
                raise ArithmeticError("not two")
            return f"{self['number']}."

    widget = Picky().widget
    widget.positions = [1]
    assert widget.caption == "Nothing can be drawn at number two: ArithmeticError: not two"
    assert widget.picture == ""
    widget.positions = [2]
    assert widget.caption == "3." and widget.picture


def test_unchanged_artists_are_shared_between_frames():
    widget = Plain(3).widget
    assert len(widget.parts) == 3
    assert widget.frames == {"0": [0], "1": [1], "2": [2]}


class Counting(FigureExplorer):
    """Two controls; counts how often it is drawn, and can take its time."""

    stage = Plain.stage

    def __init__(self, seconds: float = 0) -> None:
        self.seconds, self.drawn = seconds, []
        super().__init__(*(Control(name, name, list(range(9)), start=4) for name in ("one", "two")))

    def move(self, picture):
        time.sleep(self.seconds)
        self.drawn.append((self["one"], self["two"]))
        self.text.set_text(self.describe())

    def describe(self):
        return f"{self['one']}, {self['two']}."


def test_the_kernel_draws_where_the_control_can_go_on_and_is_asked_once():
    explorer = Counting()
    widget = explorer.widget
    assert explorer.drawn == [(4, 4)]
    widget.positions = [5, 4]
    assert set(explorer.drawn) == {(one, 4) for one in range(9)}
    drawn = len(explorer.drawn)
    for one in range(9):
        widget.positions = [one, 4]
        assert widget.caption == explorer.describe() == f"{one}, 4."
        assert f">{one}, 4.<" in widget.picture
    assert len(explorer.drawn) == drawn
    widget.positions = [8, 3]
    assert widget.caption == "8, 3."
    assert set(explorer.drawn[drawn:]) == {(8, two) for two in range(9)}


def test_the_state_asked_for_is_sent_before_its_neighbours():
    explorer, sent = Counting(), []
    explorer.widget.observe(lambda change: sent.append(list(change["new"])), names="frames")
    explorer.widget.positions = [5, 4]
    assert sent[0] == ["5,4"]
    assert sent[1][:4] == ["5,4", "4,4", "6,4", "3,4"]


def test_a_slow_picture_is_not_drawn_ahead_for_long():
    explorer = Counting(seconds=AHEAD)
    explorer.widget.positions = [5, 4]
    assert len(explorer.drawn) <= 4
    explorer.widget.positions = [8, 4]
    assert explorer.widget.caption == "8, 4."


def test_wrong_choices_speak():
    explorer = Plain(3)
    with pytest.raises(ValueError, match="no control 'amount'"):
        explorer.choose(amount=1)
    assert explorer.choose(number=1.8)["number"] == 2
    with pytest.raises(ValueError, match="two options"):
        Control("on", "on", (1, 2, 3), kind="switch")
    with pytest.raises(ValueError, match="labels"):
        Control("on", "on", (1, 2), labels=("one",))
    with pytest.raises(ValueError, match="no options"):
        Control("on", "on", ())
    with pytest.raises(ValueError, match="kind"):
        Control("on", "on", (1,), kind="dial")
    with pytest.raises(ValueError, match="start"):
        Control("on", "on", (1,), start=4)
    with pytest.raises(ValueError, match="not one of"):
        Control("word", "word", ("a", "b")).position("c")
