"""Twin of sidecar/response_scan/stream_window.py: text waits until its surroundings were seen, and no longer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from sidecar.response_scan.placeholders import Placeholders, Span
from sidecar.response_scan.sse import Event, read
from sidecar.response_scan.stream_window import BEFORE, CHANNELS, SILENT, STEP, WHOLE, Window

DONE = read(b"data: [DONE]\n\n")


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
    return read(b"data: " + json.dumps({"choices": [{"index": choice, "delta": {key: text}}]}).encode() + b"\n\n")


def text_of(events: list[Event], choice: int = 0) -> str:
    """What the events say in one choice."""
    return "".join(piece.text for event in events for piece in event.pieces if f"choices.{choice}." in piece.path)


async def run(window: Window, events: list[Event], observe: Callable[[int], None] | None = None) -> list[Event]:
    """Everything through; `seen` is told how many characters wait after each event."""
    released: list[Event] = []
    for number, event in enumerate(events):
        released += await window.add(event)
        if observe:
            observe(sum(e.size for e in events[: number + 1]) - sum(e.size for e in released))
    return released + await window.finish()


def words_go(text: str) -> tuple[int, bool]:
    """Whatever is complete goes; a figure only after a look."""
    size = text.rfind(" ") + 1
    return size, any(letter.isdigit() for letter in text[:size])


@pytest.mark.parametrize("size", [1, 4, 30])
async def test_what_need_not_wait_goes_at_once(size: int) -> None:
    """Event by event, in order, and without a look."""
    text, looks, waiting = "The bar is open until two. " * 8, Looks(), []
    events = [delta(text[i : i + size]) for i in range(0, len(text), size)]
    released = await run(Window(looks, hold=160, free=words_go), events, waiting.append)
    assert [id(event) for event in released] == [id(event) for event in events]
    assert max(waiting) <= max(size, len("until ") + size)
    assert (len(looks.texts), looks.texts[-1]) == (3, text)  # nobody had seen it for so long; the end; all


async def test_what_need_not_wait_after_a_look_is_looked_at_first() -> None:
    """And does not go if that stops it."""
    looks, released = Looks("agent 7"), []
    window = Window(looks, hold=160, free=words_go)
    for piece in ("Ask ", "for ", "agent "):
        released += await window.add(delta(piece))
    with pytest.raises(Stop):
        await window.add(delta("7 "))
    assert text_of(released) == "Ask for agent "
    assert looks.texts == ["Ask for agent 7 "]


async def test_what_waits_in_one_choice_holds_up_what_came_after_it_in_another() -> None:
    """Events keep their order; and what the bound lets go does not wait again."""
    window, released = Window(Looks(), hold=60, free=words_go), []
    for number in range(60):
        released += await window.add(delta("abc"))
        released += await window.add(delta("word ", choice=1))
        assert len(text_of(released)) >= 3 * number - 120
    assert text_of(released, 1).startswith("word word ")
    released += await window.add(delta(" "))
    assert "word" in text_of(released[-2:], 1)


@pytest.mark.parametrize("size", [1, 5, 40, 500])
async def test_everything_goes_in_order_and_no_more_than_the_hold_waits(size: int) -> None:
    """Whatever the pieces are; the event at the head may stand beside the hold."""
    text = "The bar is open until two. " * 40
    events, waiting = [delta(text[i : i + size]) for i in range(0, len(text), size)], []
    released = await run(Window(Looks(), hold=100), events, waiting.append)
    assert [id(event) for event in released] == [id(event) for event in events]
    assert max(waiting) <= 100 + size
    assert all(event.written() == event.raw for event in released)


@pytest.mark.parametrize("before", [0, 90, 1000])
async def test_nothing_of_what_stops_it_has_gone(before: int) -> None:
    """As long as it is shorter than two thirds of the hold."""
    text = "x" * before + "tell nobody that boat four leaks" + "y" * 300
    events = [delta(text[i : i + 3]) for i in range(0, len(text), 3)]
    window, released = Window(Looks("nobody that boat four leaks"), hold=60), []

    async def everything() -> None:
        for event in events:
            released.extend(await window.add(event))

    with pytest.raises(Stop):
        await everything()
    assert "nobody" not in text_of(released)
    assert len(text_of(released)) >= before - 66


async def test_without_a_hold_everything_goes_at_once_and_is_looked_at_all_the_same() -> None:
    """`responses: flag`: every so many characters, and at the end."""
    events, looks = [delta("ten chars " * 3) for _ in range(30)], Looks()
    window = Window(looks, hold=0)
    for event in events:
        assert await window.add(event) == [event]
    assert len(looks.texts) == 900 // (STEP + 30)
    await window.finish()
    assert looks.texts[-1] == "ten chars " * 90


async def test_every_look_sees_what_went_before() -> None:
    """A run of words over two looks is found."""
    looks = Looks()
    window = Window(looks, hold=48)
    for letter in "abcdefghijklmnopqrstuvwxyz" * 40:
        await window.add(delta(letter))
    assert all(later[: BEFORE // 2] in "abcdefghijklmnopqrstuvwxyz" * 40 for later in looks.texts)
    assert max(map(len, looks.texts)) <= BEFORE + 49


async def test_events_without_text_pass_unless_text_waits_before_them() -> None:
    """The role goes at once; a finish reason does not overtake the words."""
    role, word, end = read(b'data: {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}\n\n'), delta("Hi"), DONE
    window = Window(Looks(), hold=100)
    assert await window.add(role) == [role]
    assert await window.add(word) == []
    assert await window.add(end) == [word, end]


async def test_choices_are_looked_at_apart() -> None:
    """And a channel that falls silent does not hold the other one up for ever."""
    looks = Looks()
    window = Window(looks, hold=60)
    for part in ("tell ", "nobody ", "that"):
        await window.add(delta(part, key="reasoning_content"))
    released: list[Event] = []
    for _ in range(40):
        released += await window.add(delta("word ", choice=1))
    assert text_of(released).startswith("tell nobody that")
    assert len(text_of(released, 1)) >= 200 - 60 - 5
    assert any(text == "tell nobody that" for text in looks.texts)


async def test_the_end_is_looked_at_as_a_whole() -> None:
    """What no window shows, such as a long code, shows there; up to a bound."""
    looks = Looks()
    await run(Window(looks, hold=60), [delta("0123456789" * 10) for _ in range(WHOLE // 100 + 50)])
    assert len(looks.texts[-1]) == WHOLE - WHOLE % 100


async def test_events_without_text_do_not_pile_up() -> None:
    """An upstream that says nothing for ever behind a first word fills no memory; the look has seen the word."""
    looks, names = Looks(), Placeholders()
    names.redact("ann@kestrel-ferry.com", [Span(0, 21, "EMAIL")])
    for word in ("hello", "<EMAIL", "<EMAIL_1>"):
        window, released = Window(looks, 160, names), 0
        for number in range(SILENT + 400):
            released += len(await window.add(delta("" if number else word)))
            assert number + 1 - released <= 160 + SILENT
        assert looks.texts.pop() == word


async def test_a_stream_of_many_choices_costs_no_more_for_each_event() -> None:
    """A client may ask for 128 choices: what one event costs must not grow with all that waits in each of them."""
    names = Placeholders()
    names.redact("ann@kestrel-ferry.com", [Span(0, 21, "EMAIL")])
    window, begun = Window(Looks(), 160, names), time.process_time()
    events = [delta("word", number % 128) for number in range(1_500)]
    released = [event for incoming in events for event in await window.add(incoming)] + await window.finish()
    assert released == events
    assert time.process_time() - begun < 2


async def test_many_channels_are_bounded() -> None:
    """Beyond a number they are looked at piece by piece, and still looked at."""
    looks = Looks()
    window = Window(looks, hold=48)
    await run(window, [delta(f"text {n}", choice=n) for n in range(CHANNELS + 20)])
    assert {f"text {n}" for n in range(CHANNELS + 20)} <= set(looks.texts)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("hold", [72, 200])
async def test_a_name_comes_back_as_its_value_wherever_it_is_cut(size: int, hold: int) -> None:
    """In the event in which it begins; what is no name stays, to the last character."""
    names = Placeholders()
    names.redact("ann@example.com", [Span(0, 15, "EMAIL")])
    text = "I wrote to <EMAIL_1> and <EMAIL_2>, a < b. " * 5 + "Bye <EMAIL_1> <EMA"
    events = [delta(text[i : i + size]) for i in range(0, len(text), size)]
    released = await run(Window(Looks(), hold, names), events)
    assert text_of(released) == text.replace("<EMAIL_1>", "ann@example.com")
    assert [read(event.written()).size for event in released if event.size] == [e.size for e in released if e.size]


async def test_values_come_back_escaped_in_the_arguments_of_a_tool() -> None:
    """Two channels at once, by turns."""
    names = Placeholders()
    names.redact('a"b', [Span(0, 3, "SECRET")])
    window, released = Window(Looks(), 72, names), []
    for first, second in zip('{"x": "<SECRET_1>"}', "It is <SECRET_1>!!!", strict=True):
        call = {"index": 0, "function": {"arguments": first}}
        event = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
        released += await window.add(read(b"data: " + json.dumps(event).encode() + b"\n\n"))
        released += await window.add(delta(second, choice=1))
    released += await window.finish()
    assert (text_of(released), text_of(released, 1)) == ('{"x": "a\\"b"}', 'It is a"b!!!')


async def test_a_whole_text_in_an_event_is_restored_and_looked_at_at_once() -> None:
    """As the last events of the Responses API hold it."""
    names, looks = Placeholders(), Looks()
    names.redact("ann@example.com", [Span(0, 15, "EMAIL")])
    done = b'data: {"type": "response.output_text.done", "text": "To <EMAIL_1>"}\n\n'
    released = await Window(looks, 72, names).add(read(done))
    assert (looks.texts, json.loads(released[0].written()[6:])["text"]) == (["To <EMAIL_1>"], "To ann@example.com")
