"""The judge's prompt: markers, questions, schema."""

from __future__ import annotations

from sidecar.detectors.judge import prompt
from sidecar.detectors.judge.prompt import BUILT_IN, messages, new_marker, questions, schema, system_prompt_ends
from sidecar.types import Label


def test_markers_differ() -> None:
    """No two calls share a marker."""
    assert len({new_marker() for _ in range(1000)}) == 1000


def test_the_task_is_the_same_for_all_calls() -> None:
    """Only the second message knows marker, text and secret, so servers can reuse the first."""
    first, second = messages(BUILT_IN, "k1", "text", None), messages(BUILT_IN, "k2", "other", "Be kind.")
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_text_stands_between_markers_and_the_form_comes_last() -> None:
    """The data stands between two marker lines; the required form follows it."""
    content = messages(BUILT_IN, "k1", "the text", None)[1]["content"]
    assert "<<<k1 begins>>>\nthe text\n<<<k1 ends>>>" in content
    assert content.endswith('{"id": "k1", "q1": 0-9, "q2": 0-9, "q3": 0-9, "q4": 0-9, "reasoning": "..."}')
    assert "secret" not in content


def test_a_secret_is_escaped_and_shortened() -> None:
    """The system prompt is data too, and of a long one both ends are shown."""
    content = messages(BUILT_IN, "k1", "text", "start {x}" + "a" * 5000 + "end")[1]["content"]
    assert "start \\u007bx\\u007d" in content
    assert "aend\n<<<k1 secret ends>>>" in content
    assert len(content) < 3000
    assert system_prompt_ends(None) == [""]


def test_braces_in_the_text_mean_nothing_to_the_template() -> None:
    """A text that looks like a template's field stays as it is."""
    assert "{form} {marker}" in messages(BUILT_IN, "k1", "{form} {marker}", None)[1]["content"]


def test_the_schema_names_every_grade_and_nothing_of_the_call() -> None:
    """The same schema for each call: servers compile it once."""
    judge_schema = schema(BUILT_IN)
    assert judge_schema["required"] == ["id", "q1", "q2", "q3", "q4", "reasoning"] == list(judge_schema["properties"])
    assert judge_schema["additionalProperties"] is False


def test_the_built_in_questions_cover_the_attack_labels() -> None:
    """Every label but PII has a question; without rules they are all there is."""
    assert {question.label for question in questions()} == set(Label) - {Label.PII_DETECTED}
    assert all(question.rule == f"JUDGE-{question.label}" for question in questions())
    assert prompt.grade_names(BUILT_IN) == ["q1", "q2", "q3", "q4"]
