"""The commands from end to end on the tiny course: what they print, what they write, and what they leave alone."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from bs4 import BeautifulSoup

from helpers.grading import commands, gradebook
from helpers.grading import key as keys
from helpers.grading.submission import Unreadable, collect
from tests.grading.conftest import GOOD, NAME, SEED, STUB, WRONG, notebook

HALF = {"square": GOOD["square"], "cube": WRONG["cube"]}


LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")  # relative links of Markdown


@pytest.fixture
def key_file(references: dict, tmp_path: Path) -> Path:
    path = tmp_path / "key.json"
    path.write_text(json.dumps({"schema": 1, "seed": SEED, "notebooks": references}))
    return path


def hand_in(folder: Path, learner: str, answers: dict[str, str]) -> Path:
    path = folder / learner / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook(answers), path)
    return path


def table(out: Path) -> dict[str, dict[str, str]]:
    with (out / "gradebook.csv").open(newline="", encoding="utf-8") as file:
        return {row["learner"]: row for row in csv.DictReader(file)}


# -- course check -----------------------------------------------------------------------------------------------


def test_check_says_one_line_for_each_exercise_and_changes_nothing(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    good, half, stub = (
        hand_in(tmp_path, name, answers) for name, answers in (("a", GOOD), ("b", HALF), ("c", STUB))
    )
    before = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (good, half, stub)}
    assert commands.check([str(good), "--root", str(course)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{NAME}.ipynb: 4 of 4 points",
        "  ✓ A square",
        "  ✓ A cube",
    ]
    assert commands.check([str(half), str(stub), "--root", str(course)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"{NAME}.ipynb: 2 of 4 points", "  ✓ A square"]
    assert lines[2].startswith("  ✗ A cube: ") and "not the right power" in lines[2]
    assert lines[3] == "  Next: A cube."
    assert lines[4:] == [
        f"{NAME}.ipynb: 0 of 4 points",
        "  ○ A square: not started",
        "  ○ A cube: not started",
        "  Next: A square.",
    ]
    assert before == {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in before}
    assert sorted(path.name for path in good.parent.iterdir()) == [good.name], "nothing lies beside it"


def test_check_names_a_bad_file_and_goes_on(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    good = hand_in(tmp_path, "a", GOOD)
    (tmp_path / "cut.ipynb").write_bytes(good.read_bytes()[:700])
    bare = notebook(GOOD)
    del bare.cells[3]
    nbformat.write(bare, tmp_path / "missing.ipynb")
    paths = [tmp_path / "nowhere.ipynb", tmp_path / "cut.ipynb", tmp_path / "missing.ipynb", good]
    assert commands.check([*map(str, paths), "--root", str(course)]) == 1
    said = capsys.readouterr().out
    assert "nowhere.ipynb does not exist; give the name of an exercise notebook." in said
    assert "cut.ipynb is damaged or cut off" in said and "hand it in again" in said
    assert "A square: There is no answer cell for this exercise." in said
    assert f"{NAME}.ipynb: 4 of 4 points" in said, "other files go on"


# -- course grade, regrade --------------------------------------------------------------------------------------


def test_a_class_from_hand_in_to_gradebook(
    course: Path, key_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    handed, out = tmp_path / "handed", tmp_path / "out"
    for learner, answers in (("ada", GOOD), ("=1+1", HALF), ("<b>eve</b>", STUB)):
        hand_in(handed, learner.replace("/", "|"), answers)
    (handed / "cut").mkdir()
    (handed / "cut" / "x.ipynb").write_text("{")
    arguments = [str(handed), "--root", str(course), "--key", str(key_file), "--out", str(out), "--jobs", "2"]
    assert commands.grade(arguments) == 0
    assert "4 submissions, 0 to be graded again" in capsys.readouterr().out
    rows = gradebook.read(out / "results.jsonl")
    assert len(rows) == 4, "rows out = submissions in"
    assert {row["learner"]: (row["status"], row["earned"]) for row in rows} == {
        "ada": ("graded", 4),
        "=1+1": ("graded", 2),
        "<b>eve<|b>": ("graded", 0),
        "cut": ("unreadable", 0),
    }
    written = table(out)
    assert written["'=1+1"]["earned"] == "2.0", "a name is no formula"
    assert written["ada"][f"{NAME}/cube"] == "2.0" and written["'=1+1"][f"{NAME}/cube"] == "0.0"

    pages = {path.name: path.read_text() for path in (out / "feedback").iterdir()}
    assert len(pages) == 4
    assert not any("<b>" in page for page in pages.values()), "names are escaped"
    assert not any(str(x**3) in page for page in pages.values() for x in (7, 11, 23)), "no keyed value"
    report = " ".join(BeautifulSoup((out / "class.html").read_text(), "html.parser").get_text(" ").split())
    assert "4 submissions" in report and f"wrong-power in {NAME}/cube 1" in report
    assert "A cube (cube) Outcome Submissions passed 1 failed: wrong-power 1 not started 1" in report
    assert (
        "Share of the points Submissions 0 to 20 % 1 20 to 40 % 0 40 to 60 % 1 60 to 80 % 0 80 to 100 % 1"
        in report
    )
    cases = [
        ElementTree.parse(path).getroot().findall("testcase") for path in sorted((out / "junit").iterdir())
    ]
    assert sorted(map(len, cases)) == [0, 2, 2, 2]
    assert sum(case.find("failure") is not None for suite in cases for case in suite) == 1

    # A second run has nothing to do; a new submission is graded alone; regrade starts over and keeps the old log.
    first = (out / "results.jsonl").read_text()
    assert commands.grade(arguments) == 0 and (out / "results.jsonl").read_text() == first
    path = handed / "<b>eve<|b>" / f"{NAME}.ipynb"
    nbformat.write(notebook(HALF), path)
    assert commands.grade(arguments) == 0
    assert len((out / "results.jsonl").read_text().splitlines()) == 5
    assert table(out)["<b>eve<|b>"]["earned"] == "2.0"
    assert commands.regrade(arguments) == 0
    assert len((out / "results.jsonl").read_text().splitlines()) == 4
    assert len(list(out.glob("results-*.jsonl"))) == 1


def test_a_new_key_makes_old_results_out_of_date(course: Path, key_file: Path, tmp_path: Path) -> None:
    handed, out = tmp_path / "handed", tmp_path / "out"
    hand_in(handed, "ada", STUB)
    arguments = [str(handed), "--root", str(course), "--out", str(out), "--key", str(key_file)]
    commands.grade(arguments)
    made = json.loads(key_file.read_text())
    made["notebooks"][NAME]["cube"][0]["values"] = [1]
    key_file.write_text(json.dumps(made))
    commands.grade(arguments)
    assert len((out / "results.jsonl").read_text().splitlines()) == 2


def test_a_line_cut_off_by_a_crash_costs_that_line_alone(tmp_path: Path) -> None:
    log = tmp_path / "results.jsonl"
    gradebook.append(log, {"submission": "a"})
    with log.open("a") as file:
        file.write('{"submission": "b", "sta')
    gradebook.append(log, {"submission": "c"})
    assert [row["submission"] for row in gradebook.read(log)] == ["a", "c"]


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"schema": 2}', '{"schema": 1, "seed": "x", "notebooks": {}}']
)
def test_what_is_no_key_is_refused(
    content: str, course: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "key.json").write_text(content)
    hand_in(tmp_path / "handed", "ada", STUB)
    arguments = ["--key", str(tmp_path / "key.json"), "--out", str(tmp_path / "out"), "--root", str(course)]
    assert commands.grade([str(tmp_path / "handed"), *arguments]) == 2
    assert "is not a key; make one with" in capsys.readouterr().err


# -- archives ---------------------------------------------------------------------------------------------------


def refusals(archive: Path, into: Path) -> list[str]:
    return [str(found) for _, found in collect([archive], into) if isinstance(found, Unreadable)]


def test_a_platforms_archive_is_read(tmp_path: Path) -> None:
    text = nbformat.writes(notebook(GOOD))
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        for name in ("ada/a.ipynb", "bob/b.ipynb", "__MACOSX/bob/._b.ipynb", "bob/conftest.py"):
            archive.writestr(name, text)
    found = list(collect([tmp_path / "class.zip"], tmp_path / "into"))
    assert [(learner, path.name) for learner, path in found] == [("ada", "a.ipynb"), ("bob", "b.ipynb")]
    assert not list((tmp_path / "into").rglob("*.py"))


@pytest.mark.parametrize(
    "name", ["../x.ipynb", "/etc/x.ipynb", "a/../../x.ipynb", "..\\x.ipynb", "C:x.ipynb"]
)
def test_28_a_path_that_leads_outside_is_refused(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        archive.writestr(name, "{}")
    assert "leads outside" in refusals(tmp_path / "class.zip", tmp_path / "into")[0]
    assert not list(tmp_path.rglob("x.ipynb"))


def test_28_links_bombs_and_broken_archives_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = zipfile.ZipInfo("x.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    assert "holds a link" in refusals(tmp_path / "link.zip", tmp_path / "into")[0]
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.ipynb", bytes(20_000_000))
    monkeypatch.setattr("helpers.grading.submission.MAX_ZIP_BYTES", 10_000_000)
    assert "more than is accepted" in refusals(tmp_path / "bomb.zip", tmp_path / "into")[0]
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 and no more")
    assert "is no zip archive" in refusals(tmp_path / "broken.zip", tmp_path / "into")[0]


def test_without_bubblewrap_it_works_in_trusted_mode_and_says_so(
    course: Path, key_file: Path, tmp_path: Path
) -> None:
    hand_in(tmp_path / "handed", "ada", GOOD)
    hand_in(tmp_path / "handed", "bob", HALF)
    code = "import sys; from helpers.grading import commands; sys.exit(commands.grade(sys.argv[1:]))"
    arguments = [str(tmp_path / "handed"), "--root", str(course), "--key", str(key_file)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--out", str(tmp_path / "out")],
        env=os.environ | {"PATH": str(tmp_path)},  # no bwrap there
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Trusted mode: kernels are not closed in here" in done.stderr
    rows = gradebook.read(tmp_path / "out" / "results.jsonl")
    assert {row["learner"]: (row["earned"], row["mode"]) for row in rows} == {
        "ada": (4, "trusted"),
        "bob": (2, "trusted"),
    }


# -- course key, release ----------------------------------------------------------------------------------------


def test_key_is_private_and_holds_every_check(course: Path, tmp_path: Path) -> None:
    out = tmp_path / "key.json"
    arguments = ["--seed", str(SEED), "--out", str(out), "--runs", "2", "--root", str(course)]
    assert commands.key(arguments) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    made = keys.load(out)
    assert made["seed"] == SEED and list(made["notebooks"][NAME]) == ["square", "cube"]
    assert commands.key(["--seed", "0", "--out", str(out)]) == 2, "learners have seen that seed"


@pytest.mark.parametrize(("answers", "reason"), [(WRONG, "does not pass"), (STUB, "does not pass")])
def test_key_refuses_a_solution_that_fails(
    answers: dict, reason: str, course: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    for folder, given in (("exercises", STUB), ("solutions", answers)):
        (tmp_path / folder).mkdir()
        nbformat.write(notebook(given), tmp_path / folder / f"{NAME}.ipynb")
    assert commands.key(["--seed", "4711", "--out", str(tmp_path / "key"), "--root", str(tmp_path)]) == 2
    assert reason in capsys.readouterr().err and not (tmp_path / "key").exists()


def test_key_refuses_an_exercise_that_passes_unsolved(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for folder in ("exercises", "solutions"):
        (tmp_path / folder).mkdir()
        nbformat.write(notebook(GOOD), tmp_path / folder / f"{NAME}.ipynb")
    assert commands.key(["--seed", "4711", "--out", str(tmp_path / "key"), "--root", str(tmp_path)]) == 2
    assert "the unsolved exercise passes" in capsys.readouterr().err


def test_release_holds_no_solution(tmp_path: Path) -> None:
    out = tmp_path / "release"
    assert commands.release([str(out)]) == 0
    assert (out / "exercises" / "01_registration.ipynb").exists() and (out / "helpers" / "cli.py").exists()
    assert not (out / "solutions").exists() and not (out / "tests").exists()
    assert not any("BEGIN SOLUTION" in path.read_text() for path in out.rglob("*.ipynb"))
    assert commands.release([str(out)]) == 2, "nothing is written over"
    texts = [(page, page.read_text()) for page in (out / "README.md", *(out / "docs").glob("*.md"))]
    for page in out.rglob("*.ipynb"):
        texts += [
            (page, cell.source) for cell in nbformat.read(page, 4).cells if cell.cell_type == "markdown"
        ]
    links = [(page, link) for page, text in texts for link in LINK.findall(text)]
    assert len(links) > 30
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_a_learner_with_many_notebooks_gets_one_page_and_names_alike_get_two(tmp_path: Path) -> None:
    mark = {"exercise": "square", "title": "A square", "points": 2.0, "earned": 2.0, "verdict": "passed", "message": "",
            "hint": ""}  # fmt: skip
    rows = [
        {"submission": f"{learner}/{number}", "learner": learner, "notebook": f"0{number}", "status": "graded", "earned": 2.0,
         "possible": 2.0, "marks": [mark], "flags": [], "message": "", "sha256": "0" * 64}
        for learner in ("ada b", "Ada_B") for number in (1, 2)
    ]  # fmt: skip
    gradebook.write(tmp_path, rows)
    names = sorted(path.name for path in (tmp_path / "feedback").iterdir())
    assert names == ["Ada_B.html", "ada_b_2.html"]
    assert "4 of 4 points in 2 notebooks" in (tmp_path / "feedback" / names[0]).read_text()
    assert len(list((tmp_path / "junit").iterdir())) == 4
