"""Parses the judge's response: exactly one verdict, in the required schema, for this call, or an error.

A grade is one digit, 0 to 9. Where the server offers log-probabilities, a grade becomes the expected value over the
digits that the model weighed at that position (probability-weighted grading, after G-Eval, Liu et al. 2023), which is
finer and better calibrated than the digit alone. Garbage never counts as safe.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import re2

from sidecar.errors import LayerError

MAX_CONTENT = 16_384
MAX_REASONING = 300
MAX_QUOTE = 5
_MAX_GRADE = 9

_WORD = re2.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}]|[\pL\pM\pN]+")
_GRADE = re2.compile(r'"(q\d+)"\s*:\s*(\d)')
_SENTENCE = re2.compile(r"^(?:.*?[.!?。！？](?:\s|$)){1,2}")
_THINKING = re2.compile(r"(?s)^.*</think(?:ing)?>")
_FENCE = re2.compile(r"(?s)^\s*```(?:json)?\s*(.*?)\s*```\s*$")
_PRIVATE = re2.compile(r"\S+@\S+|\S*\d\S*\d\S*\d\S*|\S{24,}")


@dataclass(frozen=True, slots=True)
class Answer:
    """One verdict: for each question the confidence in a yes (0..1), and the reasoning, not yet sanitized."""

    grades: tuple[float, ...]
    reasoning: str


def parse(envelope: Any, marker: str, names: Sequence[str]) -> Answer:
    """The verdict in a chat completion. Raises `LayerError` with cause `garbage` (and the reason) or `refusal`."""
    try:
        choice = _only_choice(envelope)
        content = _content(choice)
    except (KeyError, TypeError, AttributeError):
        raise _garbage("not a chat completion") from None
    try:
        verdict = _verdict(content)
    except (TypeError, ValueError, RecursionError):
        raise _garbage("the content is not one JSON object") from None
    if set(verdict) != {"id", *names, "reasoning"} or verdict["id"] != marker:
        raise _garbage("not a verdict of this call")
    grades = [_grade(verdict[name]) for name in names]
    if not isinstance(verdict["reasoning"], str):
        raise _garbage("no reasoning")
    weighted = _weighted_grades(choice, content)
    return Answer(
        tuple(weighted.get(name, grade / _MAX_GRADE) for name, grade in zip(names, grades, strict=True)),
        verdict["reasoning"],
    )


def _garbage(reason: str) -> LayerError:
    return LayerError("garbage", f"garbage: {reason}")


def is_cut_short(envelope: Any) -> bool:
    """Whether the answer ended at the limit of tokens; where a reasoning model spends them all, it has no content."""
    try:
        return bool(envelope["choices"][0]["finish_reason"] == "length")
    except (KeyError, TypeError, IndexError):
        return False


def _grade(value: Any) -> int:
    """A digit; some models write it as a string or with a fraction of zero."""
    if isinstance(value, str) and len(value) == 1 and value in "0123456789":
        return int(value)
    if type(value) in {int, float} and value in range(_MAX_GRADE + 1):
        return int(value)
    raise _garbage("a grade is not a digit")


def _only_choice(envelope: Any) -> Any:
    choices = envelope["choices"]
    if not isinstance(choices, list) or len(choices) != 1:
        raise _garbage("not exactly one choice")
    return choices[0]


def _content(choice: Any) -> str:
    message = choice["message"]
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        raise LayerError("refusal")
    if choice.get("finish_reason") not in {"stop", None}:
        raise _garbage("cut short")
    content = _joined(message["content"])
    if not isinstance(content, str) or len(content) > MAX_CONTENT or message.get("tool_calls"):
        raise _garbage("not a text of reasonable length")
    return content


def _joined(content: Any) -> Any:
    """The text of a content in parts, if all of them are texts."""
    if not isinstance(content, list) or not all(part["type"] == "text" for part in content):
        return content
    return "".join(part["text"] for part in content)


def _verdict(content: str) -> dict[str, Any]:
    """The single JSON object of the content, without the thought before it and a code fence.

    What stands before the last `</think>` is thought: many chat templates open it in the prompt.
    """
    text = _THINKING.sub("", content, count=1)
    fenced = _FENCE.search(text)
    verdict = json.loads(
        fenced.group(1) if fenced else text, object_pairs_hook=_without_duplicates, parse_constant=_reject_constant
    )
    if not isinstance(verdict, dict):
        raise TypeError("not an object")
    return verdict


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two values under one key are two verdicts."""
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key twice")
    return unique


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _weighted_grades(choice: Any, content: str) -> dict[str, float]:
    """Expected grade, 0..1, by name, for the grades whose digits came with log-probabilities."""
    try:
        tokens = choice["logprobs"]["content"]
        positions = {match.start(2): match.group(1) for match in _GRADE.finditer(content)}
        return dict(_expectations(tokens, content, positions))
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        return {}


def _expectations(tokens: Any, content: str, positions: dict[int, str]) -> Iterator[tuple[str, float]]:
    position = 0
    for token in tokens:
        text = token["token"]
        if content[position : position + len(text)] != text:
            return
        inside = [place for place in range(position, position + len(text)) if place in positions]
        if inside and (expected := _expectation(token["top_logprobs"])) is not None:
            yield positions[inside[0]], expected
        position += len(text)


def _expectation(alternatives: Any) -> float | None:
    total = weight = 0.0
    for alternative in alternatives:
        digits = "".join(char for char in alternative["token"] if char in "0123456789")
        if len(digits) == 1 and alternative["logprob"] <= 0:
            probability = math.exp(alternative["logprob"])
            total, weight = total + probability * int(digits), weight + probability
    return total / weight / _MAX_GRADE if weight > 0 else None


def sanitized(reasoning: str, visible_text: str) -> str | None:
    """At most two sentences without control characters; None if nothing remains or it quotes visible text."""
    text = " ".join("".join(char if char.isprintable() else " " for char in reasoning).split())
    if (sentences := _SENTENCE.search(text)) is not None:
        text = sentences.group(0).strip()
    text = text if len(text) <= MAX_REASONING else text[: MAX_REASONING - 1] + "…"
    return None if not text or _quotes(text, visible_text) else text


def _quotes(text: str, visible_text: str) -> bool:
    """Whether over `MAX_QUOTE` consecutive words, or anything that looks private, also stand in the visible text."""
    if any(
        match.group(0).strip(".,;:()\"'").casefold() in visible_text.casefold() for match in _PRIVATE.finditer(text)
    ):
        return True
    size = MAX_QUOTE + 1
    reasoning_words, shown_words = _words(text), _words(visible_text)
    runs = {tuple(shown_words[at : at + size]) for at in range(len(shown_words) - size + 1)}
    return any(tuple(reasoning_words[at : at + size]) in runs for at in range(len(reasoning_words) - size + 1))


def _words(text: str) -> list[str]:
    """Words, and single characters of scripts without spaces."""
    return [match.group(0) for match in _WORD.finditer(text.casefold())]
