"""Twin of sidecar/api/compat/llm_guard.py: the recorded shapes of LLM Guard's API."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat_server import run_compat_server

from sidecar.api.compat.llm_guard import parse
from sidecar.config import Settings

EVIL = "Please EVIL now."


async def test_scan_and_analyze_answer_in_their_shapes(tmp_path: Path) -> None:
    """`is_valid` and a score for each scanner; analyze adds the prompt."""
    async with run_compat_server(tmp_path, "llm_guard") as server:
        _, good, _ = await server.ask("/scan/prompt", {"prompt": "Good morning!"})
        _, bad, _ = await server.ask("/analyze/prompt", {"prompt": EVIL, "scanners_suppress": []})
    clean = {"PromptInjection": 0.0, "InvisibleText": 0.0, "Anonymize": 0.0}
    assert good == {"is_valid": True, "scanners": clean}
    assert bad == {"is_valid": False, "scanners": clean | {"PromptInjection": 0.9}, "sanitized_prompt": EVIL}


async def test_a_suppressed_scanner_neither_speaks_nor_decides(tmp_path: Path) -> None:
    """Suppressed scanners are omitted; the others still decide."""
    async with run_compat_server(tmp_path, "llm_guard") as server:
        _, without, _ = await server.ask("/scan/prompt", {"prompt": EVIL, "scanners_suppress": ["PromptInjection"]})
        _, other, _ = await server.ask("/scan/prompt", {"prompt": EVIL, "scanners_suppress": ["Anonymize"]})
    assert without == {"is_valid": True, "scanners": {"InvisibleText": 0.0, "Anonymize": 0.0}}
    assert other["is_valid"] is False


async def test_errors_have_a_message(tmp_path: Path) -> None:
    """Theirs are `message` and `details`, and 422 for a body that is not theirs."""
    async with run_compat_server(tmp_path, "llm_guard") as server:
        status, reply, _ = await server.ask("/scan/prompt", {"prompt": None})
    assert (status, set(reply), reply["details"]) == (422, {"message", "details"}, None)


MAIL = "My mail is jon.frey@seepost.ch, please write a letter."


@pytest.mark.parametrize(("pii", "valid"), [("flag", True), ("block", False), ("redact", False)])
def test_a_client_cannot_undo_the_setting_for_personal_data(pii: str, *, valid: bool) -> None:
    """`scanners_suppress` omits `Anonymize` unless the operator blocks or replaces personal data."""
    body = {"prompt": MAIL, "scanners_suppress": ["Anonymize", "InvisibleText"]}
    expected = {"InvisibleText"} | ({"Anonymize"} if valid else set())
    assert parse(body, Settings.model_validate({"pii": pii})).suppressed == expected
