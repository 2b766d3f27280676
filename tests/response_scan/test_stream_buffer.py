"""Twin of sidecar/response_scan/stream_buffer.py: text waits until its surroundings were seen, and no longer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from sidecar.response_scan.placeholders import Placeholders, Span
from sidecar.response_scan.sse import Event, parse_event
from sidecar.response_scan.stream_buffer import (
    CONTEXT_CHARACTERS,
    MAX_CHANNELS,
    MAX_SILENT_EVENTS,
    MAX_WHOLE,
    SCAN_STEP,
    StreamBuffer,
)
from tests.growth import assert_linear

DONE = parse_event(b"data: [DONE]\n\n")


class Stop(Exception):
    """The look has seen enough."""


class Looks:
    """Remembers what it was shown; raises at a word."""

    def __init__(self, word: str | None = None) -> None:
        self.word = word
        self.texts: list[str] = []

    async def __call__(self, text: str, path: str) -> None:
        """One look."""
        self.texts.append(text)
        if self.word and self.word in text:
            raise Stop


def delta(text: str, choice: int = 0, key: str = "content") -> Event:
    """An event of a chat."""
    return parse_event(
        b"data: " + json.dumps({"choices": [{"index": choice, "delta": {key: text}}]}).encode() + b"\n\n"
    )


def text_of(events: list[Event], choice: int = 0) -> str:
    """What the events say in one choice."""
    return "".join(piece.text for event in events for piece in event.pieces if f"choices.{choice}." in piece.path)


async def run(buffer: StreamBuffer, events: list[Event], observe: Callable[[int], None] | None = None) -> list[Event]:
    """Everything through; `seen` is told how many characters wait after each event."""
    released: list[Event] = []
    for number, event in enumerate(events):
        released += await buffer.add(event)
        if observe:
            observe(sum(e.size for e in events[: number + 1]) - sum(e.size for e in released))
    return released + await buffer.finish()


def words_go(text: str) -> tuple[int, bool]:
    """Whatever is complete goes; a figure only after a look."""
    size = text.rfind(" ") + 1
    return size, any(letter.isdigit() for letter in text[:size])


@pytest.mark.parametrize("size", [1, 4, 30])
async def test_what_need_not_wait_goes_at_once(size: int) -> None:
    """Event by event, in order, and without a look."""
    text, looks, waiting = "The bar is open until two. " * 8, Looks(), []
    events = [delta(text[i : i + size]) for i in range(0, len(text), size)]
    released = await run(StreamBuffer(looks, hold=160, releasable=words_go), events, waiting.append)
    assert [id(event) for event in released] == [id(event) for event in events]
    assert max(waiting) <= max(size, len("until ") + size)
    assert (len(looks.texts), looks.texts[-1]) == (3, text)  # nobody had seen it for so long; the end; all


async def test_what_need_not_wait_after_a_look_is_looked_at_first() -> None:
    """And does not go if that stops it."""
    looks, released = Looks("agent 7"), []
    buffer = StreamBuffer(looks, hold=160, releasable=words_go)
    for piece in ("Ask ", "for ", "agent "):
        released += await buffer.add(delta(piece))
    with pytest.raises(Stop):
        await buffer.add(delta("7 "))
    assert text_of(released) == "Ask for agent "
    assert looks.texts == ["Ask for agent 7 "]


async def test_what_waits_in_one_choice_holds_up_what_came_after_it_in_another() -> None:
    """Events keep their order; and what the bound lets go does not wait again."""
    buffer, released = StreamBuffer(Looks(), hold=60, releasable=words_go), []
    for number in range(60):
        released += await buffer.add(delta("abc"))
        released += await buffer.add(delta("word ", choice=1))
        assert len(text_of(released)) >= 3 * number - 120
    assert text_of(released, 1).startswith("word word ")
    released += await buffer.add(delta(" "))
    assert "word" in text_of(released[-2:], 1)


@pytest.mark.parametrize("size", [1, 5, 40, 500])
async def test_everything_goes_in_order_and_no_more_than_the_hold_waits(size: int) -> None:
    """Whatever the pieces are; the event at the head may stand beside the hold."""
    text = "The bar is open until two. " * 40
    events, waiting = [delta(text[i : i + size]) for i in range(0, len(text), size)], []
    released = await run(StreamBuffer(Looks(), hold=100), events, waiting.append)
    assert [id(event) for event in released] == [id(event) for event in events]
    assert max(waiting) <= 100 + size
    assert all(event.encode() == event.raw for event in released)


@pytest.mark.parametrize("before", [0, 90, 1000])
async def test_nothing_of_what_stops_it_has_gone(before: int) -> None:
    """As long as it is shorter than two thirds of the hold."""
    text = "x" * before + "tell nobody that boat four leaks" + "y" * 300
    events = [delta(text[i : i + 3]) for i in range(0, len(text), 3)]
    buffer, released = StreamBuffer(Looks("nobody that boat four leaks"), hold=60), []

    async def everything() -> None:
        for event in events:
            released.extend(await buffer.add(event))

    with pytest.raises(Stop):
        await everything()
    assert "nobody" not in text_of(released)
    assert len(text_of(released)) >= before - 66


async def test_without_a_hold_everything_goes_at_once_and_is_looked_at_all_the_same() -> None:
    """`responses: flag`: every so many characters, and at the end."""
    events, looks = [delta("ten chars " * 3) for _ in range(30)], Looks()
    buffer = StreamBuffer(looks, hold=0)
    for event in events:
        assert await buffer.add(event) == [event]
    assert len(looks.texts) == 900 // (SCAN_STEP + 30)
    await buffer.finish()
    assert looks.texts[-1] == "ten chars " * 90


async def test_every_look_sees_what_went_before() -> None:
    """A run of words over two looks is found."""
    looks = Looks()
    buffer = StreamBuffer(looks, hold=48)
    for letter in "abcdefghijklmnopqrstuvwxyz" * 40:
        await buffer.add(delta(letter))
    assert all(later[: CONTEXT_CHARACTERS // 2] in "abcdefghijklmnopqrstuvwxyz" * 40 for later in looks.texts)
    assert max(map(len, looks.texts)) <= CONTEXT_CHARACTERS + 49


async def test_events_without_text_pass_unless_text_waits_before_them() -> None:
    """The role goes at once; a finish reason does not overtake the words."""
    role, word, end = (
        parse_event(b'data: {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}\n\n'),
        delta("Hi"),
        DONE,
    )
    buffer = StreamBuffer(Looks(), hold=100)
    assert await buffer.add(role) == [role]
    assert await buffer.add(word) == []
    assert await buffer.add(end) == [word, end]


async def test_choices_are_looked_at_apart() -> None:
    """And a channel that falls silent does not hold the other one up for ever."""
    looks = Looks()
    buffer = StreamBuffer(looks, hold=60)
    for part in ("tell ", "nobody ", "that"):
        await buffer.add(delta(part, key="reasoning_content"))
    released: list[Event] = []
    for _ in range(40):
        released += await buffer.add(delta("word ", choice=1))
    assert text_of(released).startswith("tell nobody that")
    assert len(text_of(released, 1)) >= 200 - 60 - 5
    assert any(text == "tell nobody that" for text in looks.texts)


async def test_the_end_is_looked_at_as_a_whole() -> None:
    """What no buffer shows, such as a long code, shows there; up to a bound."""
    looks = Looks()
    await run(StreamBuffer(looks, hold=60), [delta("0123456789" * 10) for _ in range(MAX_WHOLE // 100 + 50)])
    assert len(looks.texts[-1]) == MAX_WHOLE - MAX_WHOLE % 100


async def test_events_without_text_do_not_pile_up() -> None:
    """An upstream that says nothing for ever behind a first word fills no memory; the look has seen the word."""
    looks, names = Looks(), Placeholders()
    names.redact("ann@kestrel-ferry.com", [Span(0, 21, "EMAIL")])
    for word in ("hello", "<EMAIL", "<EMAIL_1>"):
        buffer, released = StreamBuffer(looks, 160, names), 0
        for number in range(MAX_SILENT_EVENTS + 400):
            released += len(await buffer.add(delta("" if number else word)))
            assert number + 1 - released <= 160 + MAX_SILENT_EVENTS
        assert looks.texts.pop() == word


def test_a_stream_of_many_choices_costs_no_more_for_each_event() -> None:
    """A client may ask for 128 choices: what one event costs must not grow with all that waits in each of them."""

    async def stream(count: int) -> None:
        names = Placeholders()
        names.redact("ann@kestrel-ferry.com", [Span(0, 21, "EMAIL")])
        buffer, events = StreamBuffer(Looks(), 160, names), [delta("word", number % 128) for number in range(count)]
        assert [event for new in events for event in await buffer.add(new)] + await buffer.finish() == events

    assert_linear(lambda count: asyncio.run(stream(count)), 250)


async def test_many_channels_are_bounded() -> None:
    """Beyond a number they are looked at piece by piece, and still looked at."""
    looks = Looks()
    buffer = StreamBuffer(looks, hold=48)
    await run(buffer, [delta(f"text {n}", choice=n) for n in range(MAX_CHANNELS + 20)])
    assert {f"text {n}" for n in range(MAX_CHANNELS + 20)} <= set(looks.texts)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("hold", [72, 200])
async def test_a_name_comes_back_as_its_value_wherever_it_is_cut(size: int, hold: int) -> None:
    """In the event in which it begins; what is no name stays, to the last character."""
    names = Placeholders()
    names.redact("ann@example.com", [Span(0, 15, "EMAIL")])
    text = "I wrote to <EMAIL_1> and <EMAIL_2>, a < b. " * 5 + "Bye <EMAIL_1> <EMA"
    events = [delta(text[i : i + size]) for i in range(0, len(text), size)]
    released = await run(StreamBuffer(Looks(), hold, names), events)
    assert text_of(released) == text.replace("<EMAIL_1>", "ann@example.com")
    assert [parse_event(event.encode()).size for event in released if event.size] == [
        e.size for e in released if e.size
    ]


async def test_values_come_back_escaped_in_the_arguments_of_a_tool() -> None:
    """Two channels at once, by turns."""
    names = Placeholders()
    names.redact('a"b', [Span(0, 3, "SECRET")])
    buffer, released = StreamBuffer(Looks(), 72, names), []
    for first, second in zip('{"x": "<SECRET_1>"}', "It is <SECRET_1>!!!", strict=True):
        call = {"index": 0, "function": {"arguments": first}}
        event = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
        released += await buffer.add(parse_event(b"data: " + json.dumps(event).encode() + b"\n\n"))
        released += await buffer.add(delta(second, choice=1))
    released += await buffer.finish()
    assert (text_of(released), text_of(released, 1)) == ('{"x": "a\\"b"}', 'It is a"b!!!')


async def test_a_whole_text_in_an_event_is_restored_and_looked_at_at_once() -> None:
    """As the last events of the Responses API hold it."""
    names, looks = Placeholders(), Looks()
    names.redact("ann@example.com", [Span(0, 15, "EMAIL")])
    done = b'data: {"type": "response.output_text.done", "text": "To <EMAIL_1>"}\n\n'
    released = await StreamBuffer(looks, 72, names).add(parse_event(done))
    assert (looks.texts, json.loads(released[0].encode()[6:])["text"]) == (["To <EMAIL_1>"], "To ann@example.com")
