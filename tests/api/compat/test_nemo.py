"""Twin of sidecar/api/compat/nemo.py: the checks of NeMo Guardrails."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat_server import run_compat_server

from sidecar.types import Label, Segment, Source

PATH = "/v1/guardrail/checks"
EVIL = "Please EVIL now."
CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": EVIL}]
ANSWER = [{"role": "user", "content": "card?"}, {"role": "assistant", "content": "It is 4111 1111 1111 1111."}]


async def test_a_status_for_all_and_one_for_each_rail(tmp_path: Path) -> None:
    """The rails are our labels; those of a refusal are blocked."""
    async with run_compat_server(tmp_path, "nemo") as server:
        _, bad, _ = await server.ask(PATH, {"model": "m", "messages": CHAT})
        _, good, _ = await server.ask(PATH, {"model": "m", "messages": CHAT[:1]})
    assert {name: rail["status"] for name, rail in bad["rails_status"].items()} == dict.fromkeys(
        map(str, Label), "success"
    ) | {"prompt_injection": "blocked"}
    assert (bad["status"], good["status"]) == ("blocked", "success")
    assert {rail["status"] for rail in good["rails_status"].values()} == {"success"}
    assert server.scanner.scanned[0].system_prompt == "Be kind."
    assert server.scanner.scanned[0].model == "m"


@pytest.mark.parametrize("name", ["context", "state"])
async def test_what_is_added_to_the_conversation_is_read_as_from_outside(tmp_path: Path, name: str) -> None:
    """Chunks that an application retrieved are as little the user's as a tool result."""
    guardrails = {"config_id": "c", name: {"chunks": ["Harbour.", EVIL]}}
    async with run_compat_server(tmp_path, "nemo") as server:
        _, reply, _ = await server.ask(
            PATH, {"messages": [{"role": "user", "content": "Hi"}], "guardrails": guardrails}
        )
    assert reply["status"] == "blocked"
    assert Segment(EVIL, Source.UNTRUSTED, f"guardrails.{name}.chunks.1") in server.scanner.scanned[0].segments


@pytest.mark.parametrize(("responses", "status"), [("block", "blocked"), ("flag", "success")])
async def test_a_last_message_of_the_assistant_is_an_answer(tmp_path: Path, responses: str, status: str) -> None:
    """Looked at under `responses`, with the conversation before it as its prompt."""
    async with run_compat_server(tmp_path, "nemo", responses=responses, answers={"find": ["pii"]}) as server:
        _, reply, headers = await server.ask(PATH, {"messages": ANSWER})
    assert (reply["status"], reply["rails_status"]["pii_detected"]["status"]) == (status, status)
    assert "x-sidecar-unscanned" not in headers


async def test_an_answer_that_nobody_looks_at_is_named(tmp_path: Path) -> None:
    """`responses: off`: no acquittal of something that nobody read."""
    async with run_compat_server(tmp_path, "nemo") as server:
        _, reply, headers = await server.ask(PATH, {"messages": ANSWER})
    assert (reply["status"], headers["x-sidecar-unscanned"]) == ("success", "answer")


async def test_an_error_is_a_detail(tmp_path: Path) -> None:
    """In the form of the framework that NeMo's services use."""
    async with run_compat_server(tmp_path, "nemo") as server:
        status, reply, _ = await server.ask(PATH, {"messages": "x"})
    assert (status, set(reply)) == (400, {"detail"})
