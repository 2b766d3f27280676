"""Twin of sidecar/api/compat/moderations.py, read by the official client."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest
from compat_server import run_compat_server

from sidecar.types import Label

EVIL = "Please EVIL now."


async def test_the_official_client_reads_one_result_for_each_text(tmp_path: Path) -> None:
    """Flagged or not, their categories false, ours beside them; the model's name comes back."""
    async with (
        run_compat_server(tmp_path, "moderations") as server,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.key, max_retries=0) as client,
    ):
        matches = await client.moderations.create(input=["Good morning!", EVIL], model="omni-moderation-latest")
    assert [result.flagged for result in matches.results] == [False, True]
    second = matches.results[1]
    assert (second.categories.violence, second.category_scores.violence) == (False, 0.0)
    assert [name for name, matches in second.categories.model_extra.items() if matches] == ["prompt_injection"]
    assert set(second.categories.model_extra) >= set(Label)
    assert second.category_scores.model_extra["prompt_injection"] == 0.9
    assert matches.model == "omni-moderation-latest"
    assert matches.id.startswith("modr-")
    assert len({decision.id for decision in server.decision_log.decisions}) == 2


@pytest.mark.parametrize(
    "given", [EVIL, [{"type": "text", "text": "Hello."}, {"type": "text", "text": EVIL}]], ids=["text", "parts"]
)
async def test_a_text_and_a_list_of_parts_have_one_result(tmp_path: Path, given: object) -> None:
    """The parts of one message are judged together."""
    async with run_compat_server(tmp_path, "moderations") as server:
        _, matches, _ = await server.ask("/v1/moderations", {"input": given})
    assert [result["flagged"] for result in matches["results"]] == [True]
    assert matches["model"] == "prompt-sidecar"


async def test_pictures_go_by_the_failure_policy(tmp_path: Path) -> None:
    """No layer reads them: allowed and named, or refused."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = {"input": [{"type": "text", "text": "Hello."}, picture]}
    async with run_compat_server(tmp_path, "moderations") as server:
        status, _, headers = await server.ask("/v1/moderations", body)
        assert (status, headers["x-sidecar-unscanned"]) == (200, "media")
    async with run_compat_server(tmp_path, "moderations", failure={"input": {"media": "block"}}) as server:
        status, reply, _ = await server.ask("/v1/moderations", body)
    assert (status, reply["error"]["type"]) == (422, "invalid_request_error")
