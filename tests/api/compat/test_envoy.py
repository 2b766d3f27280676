"""Twin of sidecar/api/compat/envoy.py: checks as Envoy sends them. The real binary is in test_gateways.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat_server import run_compat_server

from sidecar.api.compat.envoy import envoy_settings
from sidecar.config import Settings

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
EVIL = {"model": "m", "messages": [{"role": "user", "content": "Please EVIL now."}], "stream": True}


async def test_a_check_is_the_inline_door_without_an_upstream(tmp_path: Path) -> None:
    """200 and verdict headers for what may pass; the block answer, in OpenAI's envelope, for what may not."""
    async with run_compat_server(tmp_path, "envoy", block={"style": "refusal"}) as server:
        good, body, headers = await server.ask("/envoy/v1/chat/completions?x=1", CHAT)
        bad, reply, refused = await server.ask("/envoy/v1/chat/completions", EVIL)
    assert (good, body, headers["x-sidecar-action"]) == (200, None, "allow")
    assert (bad, reply["error"]["code"], refused["x-should-retry"]) == (400, "content_filter", "false")
    assert [decision.action for decision in server.decision_log.decisions] == ["allow", "block"]


async def test_a_body_that_was_cut_off_is_never_allowed(tmp_path: Path) -> None:
    """Envoy forwards more than was scanned."""
    async with run_compat_server(tmp_path, "envoy") as server:
        status, reply, _ = await server.ask("/envoy/v1/chat/completions", CHAT, x_envoy_auth_partial_body="true")
        complete, _, _ = await server.ask("/envoy/v1/chat/completions", CHAT, x_envoy_auth_partial_body="false")
    assert (status, complete) == (413, 200)
    assert "allow_partial_message" in reply["error"]["message"]


@pytest.mark.parametrize("path", ["/envoy/v1/unknown", "/v1/chat/completions", "/envoy/envoy/v1/chat/completions"])
async def test_unknown_routes_are_refused(tmp_path: Path, path: str) -> None:
    """The prefix is stripped once; unknown routes behind it are 403."""
    async with run_compat_server(tmp_path, "envoy") as server:
        assert (await server.ask(path, CHAT))[0] == 403


def test_personal_data_that_would_be_replaced_is_blocked() -> None:
    """A check cannot change the request, so `pii: redact` blocks."""
    settings = envoy_settings(Settings(pii="redact", history="strip", untrusted="fence", responses="block"))
    assert (settings.pii, settings.history, settings.responses) == ("block", "enforce", "off")
    assert settings.untrusted == "forward"
    assert envoy_settings(Settings(pii="flag")).pii == "flag"
