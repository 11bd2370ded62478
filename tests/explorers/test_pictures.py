"""The pictures for README: one of every explorer, one of every lesson, all small."""

from __future__ import annotations

import io
import json
import runpy
from pathlib import Path

import pytest
from PIL import Image

import helpers.explorers
from helpers.explorers import pictures
from helpers.explorers.stage import Explorer

ROOT = Path(__file__).parents[2]
NAMES = [
    *(f"explorers/{name}" for name in pictures.PICTURES),
    *(f"lessons/{name}" for name in pictures.LESSONS),
]


def test_every_explorer_and_every_lesson_has_one():
    offered = {getattr(helpers.explorers, name) for name in helpers.explorers.__all__}
    explorers = {each for each in offered if issubclass(each, Explorer)}
    shown = {type(make()) for make in pictures.PICTURES.values()}
    assert all(any(issubclass(each, explorer) for each in shown) for explorer in explorers)
    assert sorted(pictures.LESSONS) == sorted(path.name[:2] for path in (ROOT / "lessons").glob("*.ipynb"))


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_picture_is_small_and_in_order(name):
    file = ROOT / pictures.FOLDER / f"{name}.png"
    assert file.stat().st_size < 60_000
    with Image.open(file) as image:
        assert image.width >= pictures.THUMBNAIL[0]
        assert len(image.getcolors(1000)) > 5


def test_no_picture_is_left_over():
    folder = ROOT / pictures.FOLDER
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png")) == sorted(
        f"{name}.png" for name in NAMES
    )


@pytest.mark.parametrize("name", ["00", "07", "08"])
def test_a_lessons_picture_is_drawn(name):
    thumbnail = pictures._thumbnail(pictures.LESSONS[name]())
    with Image.open(io.BytesIO(thumbnail)) as image:
        assert image.size == pictures.THUMBNAIL
    assert len(thumbnail) < 60_000


def test_the_command_names_what_it_writes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pictures, "PICTURES", {"delta": pictures.PICTURES["delta"]})
    monkeypatch.setattr(pictures, "LESSONS", {"01": pictures.LESSONS["01"]})
    assert pictures.main(["--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.rglob("*.png")) == ["01.png", "delta.png"]
    assert "lessons/01.png: " in capsys.readouterr().out


def test_the_page_of_the_benchmark_is_made_of_its_numbers():
    page = runpy.run_path(str(ROOT / "tests" / "benchmarks" / "explorers.py"))["report"]
    place = ROOT / "docs" / "benchmarks" / "explorers.json"
    measured = json.loads(place.read_text(encoding="utf-8"))
    assert place.with_suffix(".md").read_text(encoding="utf-8") == page(measured), (
        "run `make bench-explorers`"
    )
    assert {*pictures.PICTURES} <= {*measured["builds"]}
