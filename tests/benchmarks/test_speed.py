"""The speed benchmark: its servers, client, arithmetic and plots."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from benchmarks.speed import scenes
from benchmarks.speed.client import Answer, Tally, at_once, chat, checked, prompt
from benchmarks.speed.goals import BARE, DIRECT, RULES, Goal, added, ratios
from benchmarks.speed.page import bars, table
from benchmarks.speed.world import World, proportional, resident, spent


async def test_the_bare_proxy_passes_everything_and_the_upstream_counts() -> None:
    """Complete responses and streams, sequential and concurrent; memory and processor time are measured."""
    async with World() as world:
        bare = await world.bare()
        Tally.requests = Tally.body_bytes = 0
        requests = [chat(500, 1), chat(500, 2, stream=True, max_tokens=5, seed=1), chat(200_000, 3)]
        answers, _ = await at_once(bare.port, requests, 2)
        assert await scenes.counted(world.upstream) == (Tally.requests, Tally.body_bytes) == (3, Tally.body_bytes)
        assert sorted((answer.status, len(answer.delays)) for answer in answers) == [(200, 0), (200, 0), (200, 5)]
        assert resident(bare.pid)[0] > proportional(bare.pid) > 1
        assert spent(bare.pid) > 0


def test_a_wrong_answer_ends_the_run() -> None:
    """A wrong response raises, so that no figure of it is reported."""
    checked("x", [Answer(200, b'"Done."', 0, 0)], scenes.right)
    with pytest.raises(SystemExit, match="1 wrong"):
        checked("x", [Answer(503, b"", 0, 0)], scenes.right)


def test_prompts_have_their_size_and_are_all_different() -> None:
    """Prompts differ, so that no cache is hit."""
    prompts = {prompt(1_000, seed) for seed in range(50)}
    assert len(prompts) == 50
    assert {len(text) for text in prompts} == {1_000}


def test_ratios_are_taken_round_by_round() -> None:
    """Added latency is the difference to direct requests in the same round."""
    rows = {DIRECT: [{"p50_ms": 1.0}, {"p50_ms": 2.0}], BARE: [{"p50_ms": 3.0}, {"p50_ms": 3.0}]}
    rows[RULES] = [{"p50_ms": 4.0}, {"p50_ms": 4.0}]
    assert added(rows, RULES, BARE) == [1.5, 2.0]
    assert ratios(rows, RULES, DIRECT, "p50_ms") == [4.0, 2.0]
    assert Goal("x", 1.8, [1.5, 2.0]).met
    assert not Goal("x", 1.8, [1.5, 2.0], least=True).met
    assert Goal("x", 1.8, [1.5, 2.0]).row()[1:] == ["<= 1.80", "1.75 (1.50 to 2.00)", "yes"]


def test_plots_are_well_formed() -> None:
    """Each value has a bar, a longer one for a greater value."""
    drawn = ET.fromstring(bars("A & B", {"1 KB": {"one": 0.5, "two": 40.0}}))  # noqa: S314 - our own
    widths = [float(bar.get("width", "0")) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(widths) == 2
    assert widths[0] < widths[1]
    assert table(["a", "b"], [["1", "2"]]).splitlines() == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]
