"""Twin of sidecar/response_scan/action_gate.py: what is held, and for how long."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_turns import DIALECTS, HARMFUL, WORDS

from sidecar.actions.conversation import ToolCall
from sidecar.errors import UpstreamError
from sidecar.response_scan.action_gate import MAX_CHANNELS, ActionGate
from sidecar.response_scan.message_stream import parse_message
from sidecar.response_scan.sse import Event, parse_event


class Judged:
    """Records what is judged."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.texts: list[str] = []

    async def judge_calls(self, calls: list[ToolCall]) -> None:
        """Calls, by name."""
        self.calls += [call.name for call in calls]

    async def judge_text(self, text: str, _path: str) -> None:
        """Texts."""
        self.texts.append(text)

    def gate(self, *, hold: bool = True, max_bytes: int = 100_000, links: bool = True) -> ActionGate:
        """A gate with this judge."""
        return ActionGate(self.judge_calls, self.judge_text if links else None, hold=hold, max_bytes=max_bytes)


def event(delta: dict[str, Any], index: int = 0) -> Event:
    """An event of chat completions."""
    choice = {"index": index, "delta": delta, "finish_reason": None}
    return parse_event(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")


def said(text: str, index: int = 0) -> Event:
    """An event with some words."""
    return event({"content": text}, index)


def events(name: str, words: str = WORDS, tool: str = "send_mail") -> list[Event]:
    """A stream."""
    parse = parse_message if name == "bedrock" else parse_event
    return [parse(raw) for raw in DIALECTS[name].events(words, tool, HARMFUL)]


async def released(gate: ActionGate, stream: list[Event]) -> list[int]:
    """How many events are released after each one."""
    return [len(await gate.pass_on([event])) for event in stream]


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_call_is_held_from_its_first_piece_to_its_end(name: str) -> None:
    """Every event comes out once, in order."""
    judged, stream = Judged(), events(name)
    gate = judged.gate()
    counts = await released(gate, stream)
    rest = await gate.finish()
    assert sum(counts) + len(rest) == len(stream)
    assert 0 in counts or name == "gemini"  # its calls come whole
    assert counts[0] == 1
    assert "send_mail" in judged.calls


@pytest.mark.parametrize("name", DIALECTS)
async def test_without_a_hold_every_event_passes_at_once(name: str) -> None:
    """And is judged all the same."""
    judged, stream = Judged(), events(name)
    assert await released(judged.gate(hold=False), stream) == [1] * len(stream)
    assert "send_mail" in judged.calls


async def test_a_link_is_held_until_it_ends() -> None:
    """Words that only begin like one are held for one event."""
    judged = Judged()
    counts = await released(
        judged.gate(), [said(text) for text in ("So h", "ere: ht", "tps://x.ex", "ample/a", " and")]
    )
    assert counts == [0, 1 + 0, 0, 0, 4] or sum(counts) == 5
    assert counts[2:4] == [0, 0]
    assert judged.texts == ["So here: https://x.example/a and"]


async def test_a_link_at_the_end_is_judged_at_the_end() -> None:
    """Before it is released."""
    judged = Judged()
    gate = judged.gate()
    assert await released(gate, [said("See https://x.example/a")]) == [0]
    assert len(await gate.finish()) == 1
    assert judged.texts == ["See https://x.example/a"]


@pytest.mark.parametrize("text", ["See https://x.example/a", "ht", "https:/"])
async def test_a_link_that_the_stream_ends_with_is_judged_before_the_last_event(text: str) -> None:
    """The last event is not released before the judgement, which may withhold it."""

    class Withheld(Exception):
        pass

    async def judge(_text: str, _path: str) -> None:
        raise Withheld

    gate = ActionGate(Judged().judge_calls, judge, hold=True, max_bytes=100_000)
    assert await released(gate, [said(text)]) == [0]
    with pytest.raises(Withheld):
        await gate.pass_on([parse_event(b"data: [DONE]\n\n")])


async def test_ordinary_words_are_not_held() -> None:
    """No link, no call."""
    stream = [said(text) for text in ("The weather ", "is fine, ", "and the sea ", "is 21 degrees.")]
    assert await released(Judged().gate(), stream) == [1, 1, 1, 1]


async def test_what_is_held_is_bounded() -> None:
    """A call that does not end is an error, not a leak of memory."""
    call = {"index": 0, "function": {"name": "a", "arguments": "x" * 900}}
    with pytest.raises(UpstreamError, match="too large"):
        await released(Judged().gate(max_bytes=2_000), [event({"tool_calls": [call]})] * 5)


async def test_what_is_kept_without_a_hold_is_bounded_too() -> None:
    """A call that does not end is judged as far as it came, and all events pass."""
    judged = Judged()
    gate = judged.gate(hold=False, max_bytes=2_500)
    parts: list[dict[str, Any]] = [{"name": "a", "arguments": "x" * 900}, *[{"arguments": "x" * 900}] * 6]
    stream = [event({"tool_calls": [{"index": 0, "function": part}]}) for part in parts]
    assert await released(gate, stream) == [1] * 7
    await gate.finish()
    assert judged.calls == ["a", "", ""]


@pytest.mark.parametrize("hold", [False, True])
async def test_the_texts_that_are_open_are_bounded(*, hold: bool) -> None:
    """Of more than that the oldest is judged as it is."""
    judged = Judged()
    gate = judged.gate(hold=hold, max_bytes=1_000_000)
    await released(gate, [said("See https://x.example/a", index) for index in range(MAX_CHANNELS + 2)])
    assert len(judged.texts) == 2
    await gate.finish()
    assert len(judged.texts) == MAX_CHANNELS + 2


async def test_links_that_are_not_judged_are_not_held() -> None:
    """`actions.links: false`."""
    judged = Judged()
    assert await released(judged.gate(links=False), [said("See https://x.example/a"), said("b")]) == [1, 1]
    assert judged.texts == []


LINK = "https://x.example/p?d=c2VjcmV0"


@pytest.mark.parametrize(
    "pieces",
    [
        [f"see {LINK} ok " + "word " * 600],
        [f"see {LINK}" + "A" * 3_000 + ") bye"],
        ["see https://x.example/a(b)", LINK.removeprefix("https://x.example/p") + " bye"],
        ["see https://x.ex", "ample/p?d=c2VjcmV0" + "A" * 2_100 + ") bye"],
        [f"see {LINK} and https://y.example/" + "A" * 2_040, "B", ") bye"],
        ["see https:", "//x.example/p?d=c2VjcmV0 ok " + "word " * 600, "https://y.example/"],
        [f"see {LINK}", " ok " + "word " * 600 + " h", "ello"],
        ["see ", LINK, *["AAAA"] * 750, ") bye"],
    ],
)
async def test_no_link_is_trimmed_before_it_is_judged(pieces: list[str]) -> None:
    """Whatever follows it in the same piece, and however long it is."""
    judged = Judged()
    gate = judged.gate()
    await released(gate, [said(piece) for piece in pieces])
    await gate.finish()
    assert any(LINK in text or "a(b)?d=c2VjcmV0" in text for text in judged.texts)


async def test_the_text_that_is_judged_grows_with_the_stream() -> None:
    """A finished link is not judged again with every piece of the next one."""
    judged = Judged()
    await released(judged.gate(), [said(piece) for piece in (f"see {LINK} and https://y.example/", *["a"] * 1_000)])
    assert len(judged.texts) == 1
