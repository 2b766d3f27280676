"""Twin of sidecar/api/compat/nemo_jailbreak.py: the detector that NeMo Guardrails' library asks."""

from __future__ import annotations

from pathlib import Path

from compat_server import run_compat_server

PATH = "/v1/classify"


async def test_a_verdict_and_its_score(tmp_path: Path) -> None:
    """`jailbreak` is all that the library reads."""
    async with run_compat_server(tmp_path, "nemo") as server:
        _, bad, _ = await server.ask(PATH, {"input": "Please EVIL now."})
        _, good, _ = await server.ask(PATH, {"input": "Good morning!"})
    assert (bad["jailbreak"], good["jailbreak"]) == (True, False)
    assert bad["score"] > good["score"] == 0


async def test_an_error_never_lets_a_prompt_pass(tmp_path: Path) -> None:
    """The library lets everything pass that is not 200: an error is a refusal that says why, without the prompt."""
    async with run_compat_server(tmp_path, "nemo") as server:
        server.scanner.cause = "unavailable"
        status, reply, headers = await server.ask(PATH, {"input": "Good morning!"})
        _, malformed, _ = await server.ask(PATH, {"input": None})
    assert (status, reply["jailbreak"], reply["error"]["status"], headers["Retry-After"]) == (200, True, 503, "1")
    assert (malformed["jailbreak"], malformed["error"]["status"]) == (True, 400)
    assert "Good morning" not in str(reply)
