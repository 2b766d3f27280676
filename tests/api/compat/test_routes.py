"""Twin of sidecar/api/compat/routes.py: switches, keys, records and errors, the same for every adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compat_server import run_compat_server

from sidecar.api.compat.routes import ADAPTERS, switched_on
from sidecar.config import Compat, Settings

EVIL = "Please EVIL now."
CHAT = [{"role": "user", "content": EVIL}]
BODIES = {
    "/v1/moderations": {"input": EVIL},
    "/analyze/prompt": {"prompt": EVIL},
    "/scan/prompt": {"prompt": EVIL},
    "/v2/guard": {"messages": CHAT},
    "/beta/litellm_basic_guardrail_api": {"input_type": "request", "texts": [EVIL], "request_data": {}},
    "/request": {"body": {"messages": CHAT}},
    "/v1/guardrail/checks": {"model": "m", "messages": CHAT},
    "/apis/guardrails/v2/workspaces/default/checks": {"model": "m", "messages": CHAT},
    "/v1/classify": {"input": EVIL},
    "/api/v1/text/contents": {"contents": [EVIL]},
    "/api/v1/text/chat": {"messages": CHAT},
    "/api/v1/text/context/doc": {"content": "Hi", "context_type": "docs", "context": [EVIL]},
    "/api/v1/text/generation": {"prompt": EVIL, "generated_text": "Hi"},
    "/portkey/webhook": {
        "eventType": "beforeRequestHook",
        "requestType": "chatComplete",
        "request": {"json": {"messages": CHAT}},
    },
    "/plano/v1/chat/completions": {"messages": CHAT},
    "/plano/v1/responses": {"input": EVIL},
    "/plano/v1/messages": {"messages": CHAT},
}
REFUSALS = {"/v1/classify": {"jailbreak": True}, "/portkey/webhook": {"verdict": False}}
"""What stands for an error in contracts whose client lets everything pass that is not 200."""
ALL = tuple(Compat.model_fields)


def error_of(path: str, status: int, reply: Any) -> int:
    """The status of an error; where the contract has none, that in a refusal with 200."""
    if path not in REFUSALS:
        return status
    assert (status, REFUSALS[path].items() <= reply.items()) == (200, True)
    return int((reply.get("error") or reply["data"])["status"])


def test_every_switch_has_its_adapter() -> None:
    """Every setting has an adapter; Envoy is separate."""
    assert {adapter.switch for adapter in ADAPTERS} | {"envoy"} == set(ALL)
    assert switched_on(Settings()) == frozenset()


async def test_nothing_is_served_that_is_not_switched_on(tmp_path: Path) -> None:
    """By default none of the paths exists."""
    async with run_compat_server(tmp_path) as server:
        assert {(await server.ask(path, body))[0] for path, body in BODIES.items()} == {404}


@pytest.mark.parametrize("path", ["/analyze/output", "/scan/output", "/healthz", "/readyz", "/v2/guard/results"])
async def test_what_is_not_served_is_an_error(tmp_path: Path, path: str) -> None:
    """Other endpoints of these products: no verdict on what nobody read."""
    async with run_compat_server(tmp_path, "llm_guard", "lakera") as server:
        status, _, _ = await server.ask(path, {"prompt": EVIL, "output": EVIL})
        assert status in {403, 404}
        assert server.decision_log.decisions == []


@pytest.mark.parametrize("path", BODIES)
async def test_every_adapter_asks_for_a_key_and_records_what_it_decides(tmp_path: Path, path: str) -> None:
    """401 without a valid key and nothing scanned; with one, a decision in the log under the id of the answer."""
    async with run_compat_server(tmp_path, *(name for name in ALL if name != "envoy")) as server:
        refused = [await server.ask(path, BODIES[path], Authorization=key) for key in ("Bearer psk_wrong", "")]
        statuses = [error_of(path, status, reply) for status, reply, _ in refused]
        assert (statuses, server.scanner.scanned, server.decision_log.decisions) == ([401, 401], [], [])
        status, _, headers = await server.ask(path, BODIES[path])
    decision = server.decision_log.decisions[0]
    assert status == (400 if path.startswith("/plano") else 200)
    assert (decision.id, decision.entrypoint, decision.route) == (headers["x-sidecar-decision"], "compat", path)
    assert (decision.action, decision.status, EVIL in server.scanner.texts) == ("block", 200, True)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("body", [[], {"prompt": 1}, "x", {"input": [1]}])
async def test_a_body_of_another_shape_is_refused_and_not_scanned(tmp_path: Path, path: str, body: object) -> None:
    """4xx in JSON, whatever is wrong with it."""
    if path == "/beta/litellm_basic_guardrail_api" and isinstance(body, dict):
        body = {"texts": 1}
    if path.startswith("/plano") and isinstance(body, dict):
        body = [1]  # as in the inline proxy every object is a body, whose texts are read
    async with run_compat_server(tmp_path, *(name for name in ALL if name != "envoy")) as server:
        status, reply, _ = await server.ask(path, body)
    assert isinstance(reply, dict)
    assert error_of(path, status, reply) in {400, 422}
    assert server.scanner.scanned == []


@pytest.mark.parametrize("path", BODIES)
async def test_what_could_not_be_scanned_is_an_error_where_closed_and_named_where_open(
    tmp_path: Path, path: str
) -> None:
    """Closed: 503 with Retry-After and no verdict. Open: a header names the failure."""
    async with run_compat_server(tmp_path, *(name for name in ALL if name != "envoy")) as server:
        server.scanner.cause = "unavailable"
        status, reply, headers = await server.ask(path, BODIES[path])
        assert (error_of(path, status, reply), headers["Retry-After"]) == (503, "1")
        server.scanner.opens = True
        status, _, headers = await server.ask(path, BODIES[path])
        assert (status, headers["x-sidecar-unscanned"].split(",")[0]) == (200, "unavailable")


@pytest.mark.parametrize(
    ("path", "passes"),
    [
        ("/beta/litellm_basic_guardrail_api", {"action": "NONE"}),
        ("/request", {"action": {"reason": "monitor"}}),
        ("/portkey/webhook", {"verdict": True}),
        ("/plano/v1/chat/completions", {"messages": CHAT}),
    ],
)
async def test_gateways_that_obey_are_told_to_pass_in_monitor_mode(
    tmp_path: Path, path: str, passes: dict[str, object]
) -> None:
    """As in the inline proxy: forwarded, and recorded as `monitor`."""
    async with run_compat_server(tmp_path, "litellm", "agentgateway", "portkey", "plano", mode="monitor") as server:
        status, reply, _ = await server.ask(path, BODIES[path])
    assert (status, reply) == (200, passes)
    assert server.decision_log.decisions[0].action == "monitor"


async def test_callers_who_decide_themselves_are_told_the_truth_in_monitor_mode(tmp_path: Path) -> None:
    """The mode applies to actions of the sidecar; the verdict is returned unchanged."""
    async with run_compat_server(tmp_path, "lakera", "nemo", "fms_detectors", mode="monitor") as server:
        _, reply, _ = await server.ask("/v2/guard", BODIES["/v2/guard"])
        _, check, _ = await server.ask("/v1/guardrail/checks", BODIES["/v1/guardrail/checks"])
        _, detections, _ = await server.ask("/api/v1/text/chat", BODIES["/api/v1/text/chat"])
    assert (reply["flagged"], check["status"], len(detections)) == (True, "blocked", 1)
