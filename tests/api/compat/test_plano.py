"""Twin of sidecar/api/compat/plano.py: a body in, the same body or a refusal out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compat_server import run_compat_server

EVIL = "Please EVIL now."
MAIL = "My mail is jon.frey@seepost.ch, please write a letter."


def bodies(text: str) -> dict[str, dict[str, Any]]:
    """A body of each operation."""
    return {
        "/plano/v1/chat/completions": {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]},
        "/plano/v1/responses": {"model": "m", "input": text},
        "/plano/v1/messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]},
    }


@pytest.mark.parametrize("path", bodies(""))
async def test_a_body_comes_back_as_it_was_or_is_refused_in_the_form_of_its_api(tmp_path: Path, path: str) -> None:
    """Plano forwards what it gets with 200, and tells its client of a refusal."""
    async with run_compat_server(tmp_path, "plano", block={"status": 451}) as server:
        status, refusal, headers = await server.ask(path, bodies(EVIL)[path])
        passed = await server.ask(path, bodies("Hi")[path])
    assert (status, refusal["error"]["sidecar"]["threats"]) == (451, ["prompt_injection"])
    assert refusal["error"]["sidecar"]["decision"] == headers["x-sidecar-decision"]
    assert refusal.get("type") == ("error" if path.endswith("messages") else None)
    assert passed[:2] == (200, bodies("Hi")[path])


@pytest.mark.parametrize("path", bodies(""))
async def test_personal_data_is_replaced_in_the_body(tmp_path: Path, path: str) -> None:
    """`pii: redact`: the body has placeholders, and the number of values is in a header."""
    async with run_compat_server(tmp_path, "plano", pii="redact") as server:
        status, reply, headers = await server.ask(path, bodies(MAIL)[path])
    changed = bodies(MAIL.replace("jon.frey@seepost.ch", "<EMAIL_1>"))[path]
    assert (status, reply, headers["x-sidecar-redacted"]) == (200, changed, "1")


@pytest.mark.parametrize("path", bodies(""))
async def test_a_part_that_nobody_reads_is_refused_where_the_policy_says_so(tmp_path: Path, path: str) -> None:
    """As in the inline proxy, an error in the form of the API."""
    image = {"type": "image_url", "image_url": {"url": "https://pictures.example/a.png"}}
    body = {"messages": [{"role": "user", "content": [image]}], "input": [{"role": "user", "content": [image]}]}
    async with run_compat_server(tmp_path, "plano", failure={"input": {"media": "block"}}) as server:
        status, reply, _ = await server.ask(path, body)
    assert (status, "message" in reply["error"]) == (422, True)


async def test_only_requests_for_models_are_filtered(tmp_path: Path) -> None:
    """Other paths are errors, which Plano takes as a refusal."""
    async with run_compat_server(tmp_path, "plano") as server:
        assert (await server.ask("/plano/v1/embeddings", {"input": EVIL}))[0] in {403, 404}
