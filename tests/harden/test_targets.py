"""Twin of sidecar/harden/targets.py."""

from __future__ import annotations

from dataclasses import replace

from harden.detector import ATTACK, WORD, Detector, attack

from sidecar.evaluation import Row
from sidecar.evaluation.conversations import document
from sidecar.harden.targets import LONGEST, Target, target

LINES = "\n".join(f"Line {number} is about the weather." for number in range(400))


def conversation(*turns: object) -> Row:
    """A request with these turns of the user."""
    body = {"model": "m", "messages": [{"role": "user", "content": turn} for turn in turns]}
    return Row("c", "", frozenset({"jailbreak"}), benign=False, form="conversation", body=body, operation="/messages")


async def found(row: Row) -> Target | None:
    """The target of a row that the detector refuses."""
    return target(await Detector().outcome(row))


async def test_the_whole_text_of_a_row() -> None:
    """A changed row differs in nothing else."""
    place = await found(attack())
    assert place is not None
    assert place.text == ATTACK
    assert place.changed("new") == attack("new")


async def test_the_refused_string_of_a_conversation() -> None:
    """The other turns stay; the body of the row is not changed."""
    row = conversation("hello", [{"type": "text", "text": ATTACK}], "bye")
    place = await found(row)
    assert place is not None
    assert place.text == ATTACK
    changed = place.changed("new").body
    assert changed == {"model": "m", "messages": [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "new"}]},
        {"role": "user", "content": "bye"},
    ]}  # fmt: skip
    assert ATTACK in str(row.body)


async def test_of_a_long_text_the_lines_of_the_finding() -> None:
    """What stands before and behind stays; a document keeps text and body alike."""
    text = f"{LINES}\n{ATTACK}\n{LINES}"
    body = document(text, indirect=True)
    row = Row("d", text, frozenset({"jailbreak"}), False, form="document", body=body, operation="/chat/completions")
    place = await found(row)
    assert place is not None
    assert place.text == ATTACK
    changed = place.changed("new")
    assert changed.text == f"{LINES}\nnew\n{LINES}"
    assert changed.body is not None
    assert changed.body["messages"][1]["content"] == changed.text


async def test_of_a_long_line_a_part_around_the_finding() -> None:
    """No more than can be mutated."""
    place = await found(attack(f"{'word ' * 1_000}{WORD}{' word' * 1_000}"))
    assert place is not None
    assert WORD in place.text
    assert len(place.text) <= LONGEST


async def test_what_is_no_string_of_the_request_has_no_target() -> None:
    """A path that leads into a string, or nowhere."""
    outcome = await Detector().outcome(conversation(ATTACK))
    for path in ("messages.0.content.0.text", "messages.7.content", "messages.0", "tools.x"):
        assert target(replace(outcome, verdict=replace(outcome.verdict, blocking_path=path))) is None, path
