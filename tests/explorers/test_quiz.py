"""Quizzes: marking, explaining, shuffling, and their text."""

from __future__ import annotations

import pytest

from helpers.explorers import Question, Quiz, SelfTest
from helpers.explorers.quiz import QUESTIONS, questions, read
from helpers.explorers.stage import WIDGET_VIEW

SINGLE = Question(
    "What is `ctx`?",
    [
        ("A dictionary", False, "It has attributes."),
        ("The node", True, "It is the graph node itself."),
        ("The loss",),
    ],
    explanation="apply makes one per call.",
    level="first job",
    lesson="02_forward_and_ctx",
)
MULTIPLE = Question(
    "What may be saved?",
    [("Inputs", True), ("Outputs", True), ("Weather", False, "No.")],
    lesson="01_registration",
)


def test_an_answer_is_marked_and_explained():
    quiz = Quiz(SINGLE, MULTIPLE)
    assert quiz.answer(0, 0) == "Not quite. It has attributes. apply makes one per call."
    assert quiz.answer(0, 1) == "Right. It is the graph node itself. apply makes one per call."
    assert quiz.answer(1, 0).startswith("Not quite.")
    assert quiz.answer(1, 1, 0).startswith("Right.")
    assert quiz.score == (2, 2)


def test_text_names_the_choices_and_not_the_answer():
    text = Quiz(SINGLE, MULTIPLE).describe()
    assert "b) The node" in text
    assert "choose all that apply" in text
    assert "It is the graph node itself" not in text
    assert text == Quiz(SINGLE, MULTIPLE).describe()


def test_output_is_widget_and_text():
    bundle = Quiz(SINGLE)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", WIDGET_VIEW}


def test_the_page_and_python_share_the_choices():
    quiz = Quiz(SINGLE)
    quiz.widget.chosen = [[1]]
    assert quiz.score == (1, 1)
    quiz.answer(0, 2)
    assert quiz.widget.chosen == [[2]]


def test_self_test_is_shuffled_by_its_seed_and_says_what_to_revisit():
    many = [Question(f"{number}?", [("no",), ("yes", True)], lesson=f"0{number}_x") for number in range(8)]
    orders = {tuple(each.text for each in SelfTest(many, seed=seed).questions) for seed in range(5)}
    assert len(orders) > 1
    first, again = SelfTest(many, seed=3), SelfTest(many, seed=3)
    assert first.describe() == again.describe()
    for number, asked in enumerate(first.questions):
        first.answer(number, *(asked.right if asked.lesson != "05_x" else ()))
    assert first.score == (7, 8)
    assert first.revisit == ["05_x"]
    assert len(SelfTest(many, count=3).questions) == 3


@pytest.mark.parametrize(
    ("answers", "message"), [([("only", True)], "at least two"), ([("a",), ("b",)], "none is right")]
)
def test_questions_without_an_answer_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        Question("?", answers)


def test_wrong_use_speaks(tmp_path):
    with pytest.raises(ValueError, match="level"):
        Question("?", [("a", True), ("b",)], level="wizard")
    with pytest.raises(ValueError, match="at least one question"):
        Quiz()
    with pytest.raises(ValueError, match="no questions for lesson '99_nothing'"):
        Quiz("99_nothing")
    with pytest.raises(ValueError, match="count"):
        SelfTest([SINGLE], count=0)
    broken = tmp_path / "00_x.toml"
    broken.write_text("[[question]]\ntext = 'no answers'\n")
    with pytest.raises(ValueError, match=r"00_x\.toml"):
        read(broken)


def test_stored_questions_are_complete():
    stored = questions()
    assert {each.lesson for each in stored} == {path.stem for path in QUESTIONS.glob("*.toml")}
    for each in stored:
        assert each.level, each.text
        assert each.explanation or all(answer.why for answer in each.answers), each.text
    assert len({each.text for each in stored}) == len(stored)


def test_a_prediction_is_asked_by_its_name_and_is_no_interview_question() -> None:
    (asked,) = Quiz("04_numerical_stability/where-at-zero").questions
    assert asked.name == "where-at-zero" and asked.lesson == "04_numerical_stability"
    assert asked not in questions() and asked not in questions("04_numerical_stability")
    with pytest.raises(ValueError, match="has no prediction 'where'; it has \\['where-at-zero'\\]"):
        Quiz("04_numerical_stability/where")


def test_every_stored_question_is_for_an_interview_or_has_a_name() -> None:
    from helpers.explorers.quiz import QUESTIONS, read

    for path in QUESTIONS.glob("*.toml"):
        assert all(bool(each.level) != bool(each.name) for each in read(path)), path.stem
