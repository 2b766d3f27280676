"""Twin of sidecar/proxy/history.py: refused turns are removed, except the latest, and the rest is scanned again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_proxy import run_proxy
from recording import recording, respond

from sidecar.proxy.history import strip_refused_turns
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict
from tests.growth import assert_linear

EVIL = {"role": "user", "content": "be EVIL"}
FINE = {"role": "user", "content": "be kind"}
SAID = {"role": "assistant", "content": "ok"}
CALL = {"role": "assistant", "content": None, "tool_calls": []}
RESULT = {"role": "tool", "content": "EVIL weather", "tool_call_id": "1"}
TOOL_RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "EVIL"}]}


def verdict(*paths: str, score: float = 0.9) -> Verdict:
    """A blocking verdict with findings at these paths."""
    results = tuple(Finding("T-1", Label.JAILBREAK, score, LayerName.RULES, path) for path in paths)
    reports = (LayerReport(LayerName.RULES, score, results),)
    return Verdict(score, Action.BLOCK, (Label.JAILBREAK,), 1, LayerName.RULES, reports=reports)


def strip(turns: list[Any], *paths: str, name: str = "messages") -> tuple[list[Any], int] | None:
    """The remaining turns, and the number of refused ones."""
    results = strip_refused_turns({"model": "m", name: turns}, verdict(*paths), 0.6)
    return None if results is None else (results[0][name], results[1])


def test_a_refused_turn_is_removed_with_its_replies() -> None:
    """Other turns are unchanged."""
    turns = [FINE, SAID, EVIL, SAID, SAID, FINE]
    assert strip(turns, "messages.2.content") == ([FINE, SAID, FINE], 1)
    assert turns == [FINE, SAID, EVIL, SAID, SAID, FINE]


def test_several_refused_turns_are_removed_at_once() -> None:
    """In the lists of both APIs."""
    assert strip([EVIL, SAID, EVIL, FINE], "input.0.content", "input.2.content.0.text", name="input") == ([FINE], 2)


def test_findings_in_joined_turns_are_ignored() -> None:
    """Findings in joined texts have the path of the list and are ignored, since the rest is scanned again."""
    assert strip([EVIL, FINE], "messages.0.content", "messages") == ([FINE], 1)


def test_a_conversation_of_refused_turns_costs_no_more_than_its_length() -> None:
    """Removing different turns takes linear time: it runs on the event loop."""

    def work(count: int) -> None:
        turns = [turn for n in range(count) for turn in ({"role": "user", "content": f"be EVIL {n}"}, SAID)]
        assert strip([*turns, FINE], *(f"messages.{2 * n}.content" for n in range(count))) == ([FINE], count)

    assert_linear(work, 625)


@pytest.mark.parametrize(
    ("turns", "paths"),
    [
        ([FINE, EVIL], ["messages.1.content"]),
        ([EVIL, FINE, EVIL], ["messages.0.content", "messages.2.content"]),
        ([EVIL], ["messages.0.content"]),
        ([FINE, SAID, FINE], ["messages.1.content"]),
        ([FINE, CALL, RESULT, FINE], ["messages.2.content"]),
        ([FINE, CALL, TOOL_RESULT, FINE], ["messages.2.content.0.content"]),
        ([FINE, FINE], ["messages"]),
        ([FINE, FINE], ["tools.0.function.description"]),
        ([FINE, FINE], []),
    ],
    ids=["latest", "latest too", "only", "assistant", "tool", "tool result", "spread", "elsewhere", "nothing"],
)
def test_anything_else_stays_refused(turns: list[Any], paths: list[str]) -> None:
    """The latest turn, other roles, tool results, and findings outside the conversation."""
    assert strip(turns, *paths) is None


@pytest.mark.parametrize("document", [None, [], {}, {"messages": "x"}, {"prompt": "EVIL"}])
def test_a_body_without_turns_is_not_stripped(document: Any) -> None:
    """Whatever it is."""
    assert strip_refused_turns(document, verdict("prompt"), 0.6) is None


def test_findings_below_the_threshold_remove_no_turn() -> None:
    """If none reaches the threshold, the highest-scoring finding counts."""
    results = verdict("messages.0.content").reports[0].findings + verdict("messages.1.content", score=0.2).findings
    pair = Verdict(0.9, Action.BLOCK, (), 1, LayerName.RULES, reports=(LayerReport(LayerName.RULES, 0.9, results),))
    assert strip_refused_turns({"messages": [EVIL, FINE, FINE]}, pair, 0.6) == ({"messages": [FINE, FINE]}, 1)
    weak = verdict("messages.0.content", score=0.3)
    assert strip_refused_turns({"messages": [EVIL, FINE]}, weak, 0.6) == ({"messages": [FINE]}, 1)


async def chat(turns: list[Any], **settings: Any) -> tuple[int, str | None, list[Any]]:
    """Status, number of stripped turns, and the forwarded turns."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, **settings) as endpoint:
        reply = await endpoint.ask({"messages": turns, "x": 1.0})
    request_bytes = [json.loads(body)["messages"] for body in upstream.bodies]
    return reply.status, reply.headers.get("x-sidecar-stripped"), request_bytes[0] if request_bytes else []


async def test_a_blocked_turn_followed_by_a_clean_one_passes_under_strip_only() -> None:
    """Under `enforce`, an attack anywhere blocks for as long as the client repeats it."""
    assert await chat([EVIL, FINE], history="strip") == (200, "1", [FINE])
    assert await chat([EVIL, FINE], history="enforce") == (400, None, [])
    assert await chat([EVIL, SAID, EVIL, EVIL, FINE], history="strip") == (200, "3", [FINE])


async def test_a_refused_turn_that_was_tried_again_and_again_goes_at_once() -> None:
    """Equal texts have a finding at the first occurrence only."""
    assert await chat([EVIL, EVIL, SAID] * 9 + [FINE], history="strip") == (200, "18", [FINE])


async def test_a_clean_conversation_is_not_touched_under_strip() -> None:
    """It is forwarded byte for byte."""
    body = b'{"messages":  [{"role":"user","content":"hi"}]}'
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, history="strip") as endpoint:
        reply = await endpoint.ask(body, Content_Type="application/json")
    assert (upstream.bodies, "x-sidecar-stripped" in reply.headers) == ([body], False)


async def test_an_attack_in_the_latest_turn_blocks_under_strip_with_its_own_place() -> None:
    """Even if earlier turns could be stripped: the error names a path in the body that the client sent."""
    assert (await chat([FINE, EVIL], history="strip"))[0] == 400
    async with recording() as upstream, run_proxy(upstream.url, history="strip") as endpoint:
        reply = await endpoint.ask({"messages": [EVIL, FINE, {"role": "user", "content": "so EVIL"}]})
    assert (reply.status, reply.error["param"], upstream.connections) == (400, "messages.0.content", 0)


async def test_more_refused_turns_than_passes_block() -> None:
    """The work for one request is bounded."""
    turns = [{"role": "user", "content": f"EVIL {number}"} for number in range(9)]
    assert (await chat([*turns, FINE], history="strip"))[0] == 400


async def test_a_scan_that_fails_on_the_way_leaves_the_first_verdict_standing() -> None:
    """A refused request is not forwarded because a later scan failed open."""
    async with recording() as upstream, run_proxy(upstream.url, history="strip") as endpoint:
        endpoint.scanner.opens = True
        judge = endpoint.scanner.scan

        async def once(request: Any, caller: Any, decision: str) -> Verdict:
            results = await judge(request, caller, decision)
            endpoint.scanner.cause = "deadline"
            return results

        endpoint.scanner.scan = once
        reply = await endpoint.ask({"messages": [EVIL, FINE]})
    assert (reply.status, reply.error["code"], upstream.connections) == (400, "content_filter", 0)


async def test_monitor_leaves_nothing_out() -> None:
    """The forwarded body is unchanged."""
    assert await chat([EVIL, FINE], history="strip", mode="monitor") == (200, None, [EVIL, FINE])
