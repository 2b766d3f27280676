"""Twin of sidecar/api/compat/lakera.py: the recorded shapes of Lakera Guard v2."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from compat_server import run_compat_server

from sidecar.api.compat.lakera import _breakdown, _payload
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Segment, Source, Verdict

EVIL = "Please EVIL now."
CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": EVIL}]


async def test_a_verdict_is_flagged_or_not(tmp_path: Path) -> None:
    """By default: the flag and the request id. The system prompt is the application's."""
    async with run_compat_server(tmp_path, "lakera") as server:
        _, bad, _ = await server.ask("/v2/guard", {"messages": CHAT, "project_id": "p"})
        _, good, _ = await server.ask("/v2/guard", {"messages": [{"role": "user", "content": "Good morning!"}]})
    assert (bad["flagged"], good["flagged"]) == (True, False)
    assert set(bad) == {"flagged", "metadata"}
    assert UUID(bad["metadata"]["request_uuid"])
    assert server.scanner.scanned[0].system_prompt == "Be kind."
    assert Segment("Be kind.", Source.APPLICATION, "messages.0.content") in server.scanner.scanned[0].segments


async def test_breakdown_payload_and_build_on_request(tmp_path: Path) -> None:
    """Each detector with its message, places of personal data, and the version."""
    async with run_compat_server(tmp_path, "lakera") as server:
        wishes = {"breakdown": True, "payload": True, "dev_info": True}
        _, reply, _ = await server.ask("/v2/guard", {"messages": CHAT, **wishes})
        _, good, _ = await server.ask("/v2/guard", {"messages": [{"role": "user", "content": "Hi"}], **wishes})
    line = reply["breakdown"][0]
    assert (line["detector_type"], line["detected"], line["message_id"]) == ("prompt_attack", True, 1)
    assert set(line) == {"project_id", "policy_id", "detector_id", "detector_type", "detected", "message_id"}
    assert reply["payload"] == []
    assert set(reply["dev_info"]) == {"version", "model_version"}
    assert [line["detected"] for line in good["breakdown"]] == [False]


ANSWER = [{"role": "user", "content": "card?"}, {"role": "assistant", "content": "It is 4111 1111 1111 1111."}]


@pytest.mark.parametrize(("responses", "flagged"), [("block", True), ("flag", False)])
async def test_a_last_message_of_the_assistant_is_an_answer(tmp_path: Path, responses: str, *, flagged: bool) -> None:
    """Looked at under `responses`; what is found is listed with its place in either case."""
    async with run_compat_server(tmp_path, "lakera", responses=responses, answers={"find": ["pii"]}) as server:
        _, reply, headers = await server.ask("/v2/guard", {"messages": ANSWER, "payload": True, "breakdown": True})
        _, asked, _ = await server.ask("/v2/guard", {"messages": [*ANSWER, {"role": "user", "content": "Thanks"}]})
    assert (reply["flagged"], asked["flagged"]) == (flagged, False)
    assert [(span["detector_type"], span["message_id"], span["text"]) for span in reply["payload"]] == [
        ("pii/credit_card", 1, "4111 1111 1111 1111")
    ]
    assert "x-sidecar-unscanned" not in headers


async def test_every_choice_of_an_answer_is_looked_at(tmp_path: Path) -> None:
    """LiteLLM appends one message of the assistant per choice; the card is found in whichever it stands."""
    places = [(choices, place) for choices in (1, 2, 3) for place in range(choices)]
    async with run_compat_server(tmp_path, "lakera", responses="block", answers={"find": ["pii"]}) as server:
        for choices, place in places:
            messages = [ANSWER[0], *({"role": "assistant", "content": "Paris."} for _ in range(choices))]
            _, ordinary, _ = await server.ask("/v2/guard", {"messages": messages})
            messages[1 + place] = ANSWER[1]
            _, reply, headers = await server.ask("/v2/guard", {"messages": messages, "payload": True})
            assert (ordinary["flagged"], reply["flagged"]) == (False, True)
            assert [span["message_id"] for span in reply["payload"]] == [1 + place]
            assert "x-sidecar-unscanned" not in headers


async def test_what_the_user_wrote_is_no_find_in_any_choice(tmp_path: Path) -> None:
    """The conversation before the choices is the context of each."""
    asked = {"role": "user", "content": "Is 4111-1111-1111-1111 valid?"}
    async with run_compat_server(tmp_path, "lakera", responses="block", answers={"find": ["pii"]}) as server:
        _, reply, _ = await server.ask("/v2/guard", {"messages": [asked, ANSWER[1], ANSWER[1]]})
    assert reply["flagged"] is False


@pytest.mark.parametrize("choices", [1, 2])
async def test_an_answer_that_nobody_looks_at_is_named(tmp_path: Path, choices: int) -> None:
    """`responses: off`: no acquittal of something that nobody read."""
    async with run_compat_server(tmp_path, "lakera") as server:
        _, reply, headers = await server.ask("/v2/guard", {"messages": [ANSWER[0], *[ANSWER[1]] * choices]})
    assert (reply["flagged"], headers["x-sidecar-unscanned"]) == (False, "answer")


@pytest.mark.parametrize(
    ("rule", "name"), [("PII-100", "pii/email"), ("PII-110", "pii/phone_number"), ("PII-200", "pii/credit_card")]
)
def test_an_attack_is_told_even_where_only_personal_data_was_found(rule: str, name: str) -> None:
    """A judge's label has no finding: clients that let pass what is `pii` alone must see the attack beside it."""
    results = Finding(rule, Label.PII_DETECTED, 0.3, LayerName.RULES, "messages.1.content", 0, 5)
    reports = (LayerReport(LayerName.RULES, 0.3, (results,)), LayerReport(LayerName.LLM_JUDGE, 0.9))
    threats = (Label.PROMPT_INJECTION, Label.PII_DETECTED)
    attack = Verdict(0.9, Action.BLOCK, threats, 1, LayerName.LLM_JUDGE, reports=reports)
    reply = {line["detector_type"]: (line["detected"], line["message_id"]) for line in _breakdown(attack)}
    assert reply == {name: (True, 1), "prompt_attack": (True, 0)}
    alone = Verdict(0.3, Action.ALLOW, (Label.PII_DETECTED,), 1, LayerName.RULES, reports=reports[:1])
    assert [line["detector_type"] for line in _breakdown(alone)] == [name]


def test_personal_data_is_where_it_is_said_to_be() -> None:
    """Clients replace what stands between `start` and `end` of that message."""
    text = "Write to ada@example.com, please."
    results = Finding("PII-100", Label.PII_DETECTED, 0.3, LayerName.RULES, "messages.1.content", 9, 24)
    threats = (Label.PII_DETECTED,)
    reports = (LayerReport(LayerName.RULES, 0.3, (results,)),)
    verdict = Verdict(0.3, Action.ALLOW, threats, 1, LayerName.RULES, reports=reports)
    (reply,) = _payload(verdict, {"messages.1.content": text})
    assert (reply["start"], reply["end"], reply["text"]) == (9, 24, "ada@example.com")
    assert (reply["message_id"], reply["detector_type"]) == (1, "pii/email")
