"""Twin of sidecar/api/compat/portkey.py: hooks as the gateway 1.15.2 sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compat_server import run_compat_server

PATH = "/portkey/webhook"
EVIL = "Please EVIL now."
CARD = "It is 4111 1111 1111 1111."
MAIL = "My mail is jon.frey@seepost.ch, please write a letter."


def before(body: Any, kind: str = "chatComplete", text: Any = "") -> dict[str, Any]:
    """A hook before a request."""
    return {"eventType": "beforeRequestHook", "requestType": kind, "request": {"json": body, "text": text}}


def after(reply: Any, kind: str = "chatComplete", text: str = "", asked: str = "Hi") -> dict[str, Any]:
    """A hook after a request."""
    hook = before({"messages": [{"role": "user", "content": asked}]}, kind)
    return hook | {"eventType": "afterRequestHook", "response": {"json": reply, "text": text, "statusCode": 200}}


def completion(text: str) -> dict[str, Any]:
    """An answer of OpenAI's form."""
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("chatComplete", {"messages": [{"role": "user", "content": EVIL}]}),
        ("complete", {"prompt": ["Hi", EVIL]}),
        ("embed", {"input": EVIL}),
        ("messages", {"system": "S", "messages": [{"role": "user", "content": [{"type": "text", "text": EVIL}]}]}),
        ("decisions", {"state": {"ticket": EVIL}}),
    ],
)
async def test_the_body_is_read_by_its_kind_and_every_text_of_an_unknown_one(
    tmp_path: Path, kind: str, body: dict[str, Any]
) -> None:
    """A refusal names the threats and the decision."""
    async with run_compat_server(tmp_path, "portkey") as server:
        _, reply, headers = await server.ask(PATH, before(body, kind))
        _, good, _ = await server.ask(PATH, before({"messages": [{"role": "user", "content": "Hi"}]}))
    assert (reply["verdict"], good) == (False, {"verdict": True})
    assert reply["data"]["threats"] == ["prompt_injection"]
    assert reply["data"]["decision"] == headers["x-sidecar-decision"]


async def test_the_derived_text_costs_no_second_scan_and_another_is_read(tmp_path: Path) -> None:
    """The gateway repeats the last message in `text`."""
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    async with run_compat_server(tmp_path, "portkey") as server:
        await server.ask(PATH, before(body, text="Hi"))
        _, reply, _ = await server.ask(PATH, before(body, text=["Hi", EVIL]))
    assert [segment.text for segment in server.scanner.scanned[0].segments].count("Hi") == 1
    assert reply["verdict"] is False


async def test_personal_data_is_replaced_in_the_body_of_a_request(tmp_path: Path) -> None:
    """`pii: redact`: the gateway forwards `transformedData`; the application's own address stays."""
    system = {"role": "system", "content": "Our address is help@seepost.ch."}
    body = {"model": "m", "messages": [system, {"role": "user", "content": MAIL}]}
    async with run_compat_server(tmp_path, "portkey", pii="redact") as server:
        _, reply, headers = await server.ask(PATH, before(body, text=MAIL))
    changed = {"role": "user", "content": MAIL.replace("jon.frey@seepost.ch", "<EMAIL_1>")}
    assert reply == {
        "verdict": True,
        "transformedData": {"request": {"json": {"model": "m", "messages": [system, changed]}}},
    }
    assert headers["x-sidecar-redacted"] == "1"


async def test_nothing_is_replaced_in_an_answer(tmp_path: Path) -> None:
    """`pii: redact` is about requests; an answer is judged as it is."""
    settings: dict[str, Any] = {"pii": "redact", "responses": "block", "answers": {"find": ["pii"]}}
    async with run_compat_server(tmp_path, "portkey", **settings) as server:
        _, reply, headers = await server.ask(PATH, after(completion(CARD), asked=MAIL))
    assert (reply["verdict"], "x-sidecar-redacted" in headers) == (False, False)


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("chatComplete", completion(CARD)),
        ("complete", {"choices": [{"text": CARD}]}),
        ("messages", {"type": "message", "role": "assistant", "content": [{"type": "text", "text": CARD}]}),
    ],
)
async def test_an_answer_is_scanned_with_its_request(tmp_path: Path, kind: str, reply: dict[str, Any]) -> None:
    """A card is found, unless the user wrote it himself; with `responses: off` the answer is named."""
    async with run_compat_server(tmp_path, "portkey", responses="block", answers={"find": ["pii"]}) as server:
        _, found, _ = await server.ask(PATH, after(reply, kind))
        _, known, _ = await server.ask(PATH, after(reply, kind, asked="Is 4111 1111 1111 1111 valid?"))
    assert (found["verdict"], known["verdict"]) == (False, True)
    async with run_compat_server(tmp_path, "portkey") as server:
        _, passed, headers = await server.ask(PATH, after(reply, kind))
    assert (passed, headers["x-sidecar-unscanned"]) == ({"verdict": True}, "answer")


async def test_a_streamed_answer_that_does_not_come_is_named(tmp_path: Path) -> None:
    """The gateway sends `null` after a stream."""
    async with run_compat_server(tmp_path, "portkey", responses="block") as server:
        _, reply, headers = await server.ask(PATH, after(None))
    assert (reply["verdict"], headers["x-sidecar-unscanned"]) == (True, "answer")


@pytest.mark.parametrize(
    "hook",
    [{}, {"request": {}}, before([1]), before({"messages": []}) | {"eventType": "other"}, after({}) | {"response": 1}],
)
async def test_an_error_is_a_failed_check(tmp_path: Path, hook: dict[str, Any]) -> None:
    """The gateway lets everything pass whose status is not 2xx."""
    async with run_compat_server(tmp_path, "portkey") as server:
        status, reply, _ = await server.ask(PATH, hook)
    assert (status, reply["verdict"], reply["data"]["status"]) == (200, False, 400)
    assert server.scanner.scanned == []
