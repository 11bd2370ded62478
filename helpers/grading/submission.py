"""A submission is data: answers are read out of whatever arrives, and nothing of it is executed."""

from __future__ import annotations

import ast
import json
import re
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import nbformat
from nbformat import NotebookNode

MAX_BYTES = 5_000_000  # of one notebook
MAX_ZIP_BYTES = 2_000_000_000  # unpacked, of one archive
MAX_ZIP_FILES = 20_000
MAX_ANSWER = 200_000  # characters of one answer cell


class Unreadable(Exception):
    """A submission that cannot be read; the message names the file and the cure in one sentence."""


@dataclass
class Submission:
    """What a learner handed in for one notebook.

    Attributes:
        learner: the learner's folder or file name.
        notebook: name of the exercise notebook it answers.
        path: where it was read from.
        answers: source of each answer by exercise id; a missing one is not there.
        flags: what was ambiguous or missing, in sentences an instructor can act on.
    """

    learner: str
    notebook: str
    path: Path
    answers: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)


# -- one notebook ---------------------------------------------------------------------------------------------


def parse(path: Path) -> NotebookNode:
    """Read a notebook that may be broken or hostile.

    Raises:
        Unreadable: it cannot be read as a notebook; the message says why and what to do.
    """
    again = "save it in JupyterLab and hand it in again"
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(
                f"{path.name} is not an ordinary file (a link or a device); hand in the notebook itself."
            )
        if found.st_size > MAX_BYTES:
            raise Unreadable(
                f"{path.name} has {found.st_size / 1e6:.0f} MB, at most {MAX_BYTES / 1e6:.0f} are read; clear its outputs and {again}."
            )
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be opened ({error.strerror}); {again}.") from error
    if not raw.strip():
        raise Unreadable(f"{path.name} is empty; {again}.")
    try:
        text = raw.decode("utf-8-sig")
        if "\0" in text or "\\u0000" in text:
            raise Unreadable(f"{path.name} contains NUL characters; {again}.")
        data = json.loads(text)
        if re.search(r"\\ud[89a-f]", text, re.I):
            json.dumps(data, ensure_ascii=False).encode("utf-8")  # a lone surrogate has no UTF-8
        if not isinstance(data, dict):
            raise ValueError("not an object")
        version = data.get("nbformat", 4)
        if version not in (3, 4):
            raise Unreadable(
                f"{path.name} is in notebook format {version}; formats 3 and 4 are read: {again}."
            )
        if version == 3:
            data = json.loads(nbformat.writes(nbformat.reads(text, as_version=4)))
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable(f"{path.name} is nested too deeply to be a notebook; {again}.") from None
    except UnicodeError:
        raise Unreadable(f"{path.name} is not valid UTF-8 text; {again}.") from None
    except Exception:
        raise Unreadable(f"{path.name} is damaged or cut off: not a readable notebook; {again}.") from None
    cells = data.get("cells")
    if not isinstance(cells, list):
        raise Unreadable(f"{path.name} has no cells; {again}.")
    return nbformat.from_dict({"cells": [tidy for tidy in map(_tidy, cells) if tidy]})


def _tidy(cell: object) -> dict | None:
    """The few fields that are read, in the types they must have; ``None`` for what is no cell."""
    if not isinstance(cell, dict):
        return None
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    if not isinstance(source, str):
        return None
    metadata = cell.get("metadata")
    return {
        "cell_type": str(cell.get("cell_type", "code")),
        "id": str(cell.get("id", "")),
        "metadata": metadata if isinstance(metadata, dict) else {},
        "source": source.replace("\r\n", "\n").replace("\r", "\n"),
    }


def _owner(cell: NotebookNode) -> tuple[str, str]:
    """``(exercise, role)`` that a cell's metadata claims."""
    own, marks = cell.metadata.get("course"), cell.metadata.get("nbgrader")
    if isinstance(own, dict) and isinstance(own.get("exercise"), str) and isinstance(own.get("role"), str):
        return own["exercise"], own["role"]
    if isinstance(marks, dict) and isinstance(marks.get("grade_id"), str):
        grade_id = marks["grade_id"]
        return grade_id.removesuffix("-check"), "check" if grade_id.endswith("-check") else "answer"
    return "", ""


def defined_names(source: str) -> set[str]:
    """Names that a cell's source binds at its top level; empty when it is not Python."""
    try:
        tree = ast.parse(_without_magics(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names |= {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
    return names


def _without_magics(source: str) -> str:
    return "\n".join("pass" if line.startswith(("%", "!")) else line for line in source.split("\n"))


def read(path: Path, learner: str, course: Sequence[Pristine]) -> Submission:
    """Read the answers out of one submitted notebook.

    An answer is found by its grade id, then by its cell id, then by the names it defines. Several answers to one
    exercise: the last one with content counts, and a flag says so.

    Raises:
        Unreadable: it cannot be read, or answers none of the course's notebooks.
    """
    notebook = parse(path)
    pristine = _which(notebook, path, course)
    found = Submission(learner, pristine.name, path)
    for exercise in pristine.exercises:
        _find_answer(notebook, exercise, found)
    return found


def _find_answer(notebook: NotebookNode, exercise: PristineExercise, found: Submission) -> None:
    by_tag, by_id, by_name = [], [], []
    for cell in notebook.cells:
        owner, part = _owner(cell)
        if (owner, part) == (exercise.id, "answer"):
            by_tag.append(cell)
        elif part == "check" or "helpers.checks" in cell.source:
            continue
        elif cell.id == exercise.answer_cell:
            by_id.append(cell)
        elif not owner and set(exercise.names) & defined_names(cell.source):
            by_name.append(cell)
    stub = _bare(exercise.stub)
    written = [cell for cell in [*by_name, *by_id, *by_tag] if _bare(cell.source) not in ("", stub)]
    if not written:
        if not by_tag and not by_id:
            found.flags.append(f"{exercise.id}: the answer cell is missing.")
        elif any(not _bare(cell.source) for cell in by_tag + by_id):
            found.flags.append(f"{exercise.id}: the answer cell is empty.")
        else:
            found.answers[exercise.id] = exercise.stub
        return
    tagged = [cell for cell in by_tag + by_id if cell in written]
    chosen = tagged[-1] if tagged else written[-1]
    if len(tagged) > 1:
        found.flags.append(f"{exercise.id}: {len(tagged)} answer cells; the last one was taken.")
    if not tagged:
        found.flags.append(f"{exercise.id}: answered in a cell of the learner's own; it was taken.")
    # An answer split over its cell and a new one: names that the chosen cell lacks come from the others.
    missing = set(exercise.names) - defined_names(chosen.source)
    extra = [cell.source for cell in by_name if cell is not chosen and missing & defined_names(cell.source)]
    source = "\n\n".join([*extra, chosen.source])
    if chosen.cell_type != "code":
        found.flags.append(f"{exercise.id}: the answer cell was no code cell; its text was taken as code.")
    if len(source) > MAX_ANSWER:
        found.flags.append(
            f"{exercise.id}: the answer has {len(source)} characters, more than {MAX_ANSWER}; not taken."
        )
        return
    found.answers[exercise.id] = source


def _bare(source: str) -> str:
    return re.sub(r"\s+", "", source)


def _which(notebook: NotebookNode, path: Path, course: Sequence[Pristine]) -> Pristine:
    """The course notebook that a submission answers, by its exercises first and its file name last."""
    claims = [_owner(cell)[0] for cell in notebook.cells]
    ids = {cell.id for cell in notebook.cells}
    names = set().union(*(defined_names(cell.source) for cell in notebook.cells)) if notebook.cells else set()

    def score(pristine: Pristine) -> tuple[int, int, int, int]:
        mine = pristine.exercises
        return (
            sum(each.id in claims for each in mine),
            sum(each.answer_cell in ids for each in mine),
            int(pristine.name in path.stem),
            sum(bool(set(each.names) & names) for each in mine),
        )

    best = max(course, key=score)
    if not any(score(best)):
        known = ", ".join(each.name for each in course)
        raise Unreadable(
            f"{path.name} answers none of the exercise notebooks ({known}); hand in one of those."
        )
    return best


# -- the course's own notebooks ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class PristineExercise:
    """One exercise of a pristine notebook: its cells' ids, stub, names, points, and whether the rule must be one's own."""

    id: str
    title: str
    answer_cell: str
    stub: str
    names: tuple[str, ...]
    points: float
    own_rule: bool


@dataclass(frozen=True)
class Pristine:
    """An exercise notebook as the course ships it."""

    name: str
    path: Path
    notebook: NotebookNode
    exercises: tuple[PristineExercise, ...]

    @property
    def modules(self) -> list[str]:
        """Names of the modules that the course's own cells import."""
        sources = [
            cell.source
            for cell in self.notebook.cells
            if cell.cell_type == "code" and _owner(cell)[1] != "answer"
        ]
        nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        return sorted(names | {node.module for node in nodes if isinstance(node, ast.ImportFrom)})


def pristine(path: Path) -> Pristine:
    """Read an exercise notebook of the course.

    Raises:
        Unreadable: the file is no notebook, or has no exercises.
    """
    parse(path)
    notebook = nbformat.read(path, as_version=4)
    answers = {_owner(cell)[0]: cell for cell in notebook.cells if _owner(cell)[1] == "answer"}
    titles = {_owner(cell)[0]: _title(cell.source) for cell in notebook.cells if _owner(cell)[1] == "prompt"}
    exercises = []
    for cell in notebook.cells:
        exercise, part = _owner(cell)
        if part != "check" or exercise not in answers:
            continue
        own = cell.metadata.get("course", {})
        answer = answers[exercise]
        exercises.append(
            PristineExercise(
                exercise,
                titles.get(exercise, exercise),
                answer.id,
                answer.source,
                tuple(own.get("answers") or sorted(defined_names(answer.source))),
                float(cell.metadata.nbgrader.points),
                bool(own.get("own_rule", False)),
            )
        )
    if not exercises:
        raise Unreadable(f"{path} has no exercises; is it one of the course's exercise notebooks?")
    return Pristine(path.stem, path, notebook, tuple(exercises))


def _title(source: str) -> str:
    return re.sub(r"^#+\s*(\d+\.\s*)?", "", source.split("\n")[0]).strip()


# -- a class's submissions ----------------------------------------------------------------------------------------


def collect(sources: Sequence[Path], unpack_into: Path) -> Iterator[tuple[str, Path | Unreadable]]:
    """Find submitted notebooks in files, folders, folders of learners, and zip archives.

    Yields:
        ``(learner, path)``; for an archive or a folder that is refused, ``(name, Unreadable)``. Nothing is dropped.
    """
    for source in sources:
        if source.is_file() and source.suffix == ".zip":
            try:
                folder = _unpack(source, unpack_into / source.stem)
            except Unreadable as refusal:
                yield source.stem, refusal
                continue
            yield from _in_folder(folder)
        elif source.is_dir() and not source.is_symlink():
            yield from _in_folder(source)
        elif source.exists() or source.is_symlink():
            yield source.stem, source
        else:
            yield (
                source.stem,
                Unreadable(f"{source} does not exist; give a notebook, a folder or a zip archive."),
            )


def _in_folder(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts or "__MACOSX" in path.parts:
            continue
        inside = path.relative_to(folder).parts
        yield (inside[0] if len(inside) > 1 else path.stem), path


def _unpack(archive: Path, into: Path) -> Path:
    """Unpack a zip of ordinary files.

    Raises:
        Unreadable: it is no zip, or holds links, paths that lead outside, or more than may be unpacked.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            if len(entries) > MAX_ZIP_FILES or sum(each.file_size for each in entries) > MAX_ZIP_BYTES:
                raise Unreadable(
                    f"{archive.name} unpacks to more than is accepted; hand in notebooks without data."
                )
            for entry in entries:
                target = PurePosixPath(entry.filename.replace("\\", "/"))
                if target.is_absolute() or ".." in target.parts or ":" in entry.filename:
                    raise Unreadable(
                        f"{archive.name} holds the path {entry.filename!r}, which leads outside; it was not unpacked."
                    )
                if stat.S_ISLNK(entry.external_attr >> 16):
                    raise Unreadable(f"{archive.name} holds a link, {entry.filename!r}; it was not unpacked.")
                if entry.is_dir() or target.suffix != ".ipynb":
                    continue
                destination = into.joinpath(*target.parts)
                destination.parent.mkdir(parents=True, exist_ok=True)
                # The sizes in an archive are claims: copy no more than a notebook may have, and one byte.
                with opened.open(entry) as packed, destination.open("wb") as unpacked:
                    unpacked.write(packed.read(MAX_BYTES + 1))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError) as error:
        raise Unreadable(
            f"{archive.name} is no zip archive that can be read ({error}); pack it again."
        ) from error
    return into
