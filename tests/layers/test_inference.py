"""Twin of sidecar/layers/inference.py."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable

import pytest
import tiny_model
from tiny_model import TinyEncoder

from sidecar.errors import LayerError
from sidecar.layers.artefact import SHIPPED, Artefact, Calibration
from sidecar.layers.inference import TURN, Reader, Reading, Text
from sidecar.layers.scorer import Scorer
from sidecar.layers.windows import Cut

CUT = Cut(size=8, overlap=2, most=100)
Make = Callable[..., Reader]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes readers, and closes them at the end."""
    made: list[Reader] = []

    def one(encoder: TinyEncoder, **options: object) -> Reader:
        settings: dict[str, object] = {"batch_tokens": 4096} | options
        made.append(Reader(Scorer(encoder, tiny_model.head()), CUT, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield one
    for reader in made:
        await reader.close()


def words(count: int, last: str = "calm") -> str:
    """So many calm words and a last one."""
    return " ".join(["calm"] * (count - 1) + [last])


async def test_a_long_text_is_read_to_its_end(make: Make) -> None:
    """The last word of many windows is seen, and nothing of the text is left out."""
    reading = await make(TinyEncoder()).read([Text(words(300, "attack"))])
    assert len(reading.read) == reading.parts[0].windows > TURN
    assert max(reading.read, key=lambda read: read.logits[0]).window.end == len(words(300, "attack"))


async def test_texts_of_one_request_stay_apart(make: Make) -> None:
    """Each window knows its text, and each text how many windows it has; an empty text has none."""
    reading = await make(TinyEncoder()).read([Text("calm"), Text(""), Text(words(30, "leak"))])
    worst = max(reading.read, key=lambda read: read.logits[0])
    assert (reading.parts[worst.part].text, [part.windows for part in reading.parts[:2]]) == (2, [1, 0])


async def test_a_text_that_is_too_much_for_the_glance_fails_alone() -> None:
    """Of two requests at the same time, the hostile one is too long and the other is read."""
    reader = Reader(Scorer.open(Artefact.read(SHIPPED["onnx"]), 1), Cut(), batch_tokens=512)
    texts = ("\ufdfa" * 1000, "How do I bake bread?")
    hostile, honest = await asyncio.gather(*(reader.read([Text(text)]) for text in texts), return_exceptions=True)
    await reader.close()
    assert isinstance(hostile, LayerError)
    assert hostile.cause == "too_long"
    assert isinstance(honest, Reading)


async def test_requests_at_the_same_time_share_batches_and_one_thread(make: Make) -> None:
    """Twenty requests need far fewer than twenty runs, all in the one worker thread."""
    encoder = TinyEncoder(pause=0.02)
    reader = make(encoder)
    readings = await asyncio.gather(*(reader.read([Text("attack" if i % 2 else "calm")]) for i in range(20)))
    assert [reading.read[0].logits[0] > 0 for reading in readings] == [bool(i % 2) for i in range(20)]
    assert len(encoder.batches) < 10
    assert encoder.threads == {"semantic"}


async def test_a_short_prompt_does_not_wait_for_a_long_document(make: Make) -> None:
    """Requests take turns, so the short one is through while the long one is still being read."""
    reader = make(TinyEncoder(pause=0.02))
    long = asyncio.ensure_future(reader.read([Text(words(590))]))
    await asyncio.sleep(0.03)
    await reader.read([Text("calm")])
    assert not long.done()
    await long


async def test_no_batch_is_over_the_cap(make: Make) -> None:
    """Memory stays flat: the cap in tokens holds however much waits."""
    encoder = TinyEncoder()
    await make(encoder, batch_tokens=30).read([Text(words(300))])
    assert max(encoder.batches) == 3


async def test_a_window_that_is_enough_ends_the_reading(make: Make) -> None:
    """Nothing behind it could change the verdict, so it is not read; by its calibrated probability, not its logit."""
    text = [Text("attack " + words(500))]
    reading = await make(TinyEncoder()).read(text, enough=0.9)
    assert len(reading.read) <= TURN < reading.parts[0].windows
    weak = make(TinyEncoder(), calibration=Calibration(slope=0.1))
    assert len((await weak.read(text, enough=0.9)).read) == reading.parts[0].windows


async def test_a_short_text_is_answered_before_a_long_one_has_been_read(make: Make) -> None:
    """Within one turn, too: the short windows come first, and their requests do not wait for the others."""
    encoder = TinyEncoder(pause=0.02)
    reader = make(encoder, batch_tokens=10)
    busy = asyncio.ensure_future(reader.read([Text("calm")]))
    await asyncio.sleep(0)
    long = asyncio.ensure_future(reader.read([Text(words(60))]))
    await reader.read([Text("calm")])
    assert (busy.done(), long.done(), len(encoder.batches) <= 3) == (True, False, True)
    await long


async def test_what_is_hidden_in_a_text_that_is_too_long_is_not_even_made_out(make: Make) -> None:
    """One thread reads for all: a megabyte of escapes costs it no more than finding out that it is too long."""
    begun = time.process_time()
    with pytest.raises(LayerError, match="windows"):
        await make(TinyEncoder()).read([Text(words(3_000) + "\\x69" * 250_000)])
    assert time.process_time() - begun < 1


async def test_the_budget_counts_all_texts_of_a_request(make: Make) -> None:
    """Many texts that are each short enough are too long together."""
    with pytest.raises(LayerError) as raised:
        await make(TinyEncoder()).read([Text(words(300))] * 3)
    assert raised.value.cause == "too_long"


async def test_the_loop_stays_free_while_the_model_computes(make: Make) -> None:
    """Other work goes on during a slow run."""
    reader = make(TinyEncoder(pause=0.2))
    task = asyncio.ensure_future(reader.read([Text("calm")]))
    ticks = 0
    while not task.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks > 10


async def test_a_failing_model_is_an_error_without_its_words_and_the_next_request_is_read(make: Make) -> None:
    """What the runtime says may hold text of the prompt; the thread outlives it."""
    encoder = TinyEncoder()
    encoder.broken = True
    reader = make(encoder)
    with pytest.raises(LayerError) as raised:
        await reader.read([Text("calm")])
    assert (raised.value.cause, "secret" in str(raised.value)) == ("error", False)
    encoder.broken = False
    assert len((await reader.read([Text("calm")])).read) == 1


async def test_more_than_the_queue_holds_is_refused_at_once(make: Make) -> None:
    """A full queue answers `overload` without waiting, and those inside are served."""
    reader = make(TinyEncoder(pause=0.1), waiting=2)
    first = asyncio.ensure_future(reader.read([Text("calm")]))
    await asyncio.sleep(0.03)
    outcomes = await asyncio.gather(*(reader.read([Text("calm")]) for _ in range(5)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, LayerError)]
    assert [error.cause for error in refused] == ["overload"] * 3
    assert len((await first).read) == 1


async def test_a_caller_that_left_costs_no_more_computing(make: Make) -> None:
    """After a cancellation the rest of the text is not read."""
    encoder = TinyEncoder(pause=0.03)
    reader = make(encoder, batch_tokens=10)
    task = asyncio.ensure_future(reader.read([Text(words(590))]))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await reader.read([Text("calm")])
    assert len(encoder.batches) < 20


async def test_closing_fails_what_waits_and_what_comes_and_ends_the_thread(make: Make) -> None:
    """No caller is left waiting for ever; closing twice is no harm."""
    reader = make(TinyEncoder(pause=0.05), batch_tokens=10)
    tasks = [asyncio.ensure_future(reader.read([Text(words(200))])) for _ in range(4)]
    await asyncio.sleep(0.02)
    began = time.monotonic()
    await reader.close()
    await reader.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert {getattr(outcome, "cause", None) for outcome in outcomes} == {"unavailable"}
    assert time.monotonic() - began < 2
    with pytest.raises(LayerError):
        await reader.read([Text("calm")])


async def test_what_is_hidden_in_a_text_is_read_as_well(make: Make) -> None:
    """A decoded stretch is a part of its own, and leads back to its text."""
    hidden = base64.b64encode(b"attack calm calm calm").decode()
    reading = await make(TinyEncoder()).read([Text("calm"), Text(f"calm {hidden} calm")])
    worst = max(reading.read, key=lambda read: read.logits[0])
    assert (reading.parts[worst.part].text, reading.parts[worst.part].view.name) == (1, "base64")


async def test_a_reading_that_ended_early_names_what_it_left_unread(make: Make) -> None:
    """Texts behind a window that was enough were not read, and are not taken for harmless."""
    reading = await make(TinyEncoder(), batch_tokens=10).read([Text("calm"), Text("attack"), Text(words(300))], 0.9)
    assert reading.unread == {2}
    assert [len(reads) for reads in reading.by_text(3)] == [1, 1, TURN - 2]
