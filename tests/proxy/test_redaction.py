"""Twin of sidecar/proxy/redaction.py, with `pii: redact | block` in the inline proxy: the scanned text is forwarded."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from inline_proxy import personal, run_proxy
from recording import recording, respond, stream
from speech import PLACES, tokens

from sidecar.errors import BodyError
from sidecar.proxy.redaction import Redactor

MAIL = "ann.archer@kestrel-ferry.com"
CARD = "4111 1111 1111 1111"
REDACT: dict[str, Any] = {"pii": "redact", "upstream": {"first_byte_timeout": 20.0, "idle_timeout": 20.0}}
SAID = {"delta", "choices", "message", "content", "text", "arguments", "tool_calls", "function", "reasoning_content"}


def chat(*contents: str, **extra: object) -> dict[str, Any]:
    """A conversation with alternating roles."""
    roles = ["user", "assistant"] * len(contents)
    return {
        "model": "m",
        "messages": [{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)],
    } | extra


async def test_values_become_names_and_nothing_else_changes() -> None:
    """In every turn of any role; equal values get equal placeholders, and numbers are unchanged."""
    body = chat(
        f"I am {MAIL}, card {CARD}.", f"Hello {MAIL}!", f"Not bo@kestrel-ferry.com, {MAIL}.", temperature=0.30, n=1
    )
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        reply = await endpoint.ask(body)
    expected = chat(
        "I am <EMAIL_1>, card <CARD_1>.", "Hello <EMAIL_1>!", "Not <EMAIL_2>, <EMAIL_1>.", temperature=0.30, n=1
    )
    assert upstream.requests[0].json() == expected
    assert (reply.headers["x-sidecar-redacted"], reply.headers["x-sidecar-threats"]) == ("3", "pii_detected")
    assert reply.headers["x-sidecar-action"] == "allow"
    assert (endpoint.decision.replaced, endpoint.decision.verdict.setting) == (3, None)


async def test_what_the_application_holds_is_left_alone() -> None:
    """Its contact address stays, in its own text and in the user's; the user's own is replaced."""
    system = {"role": "system", "content": "Customers write to help@kestrel-ferry.com."}
    user = {"role": "user", "content": f"I am {MAIL}. Is Help@kestrel-ferry.com right?"}
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        await endpoint.ask({"model": "m", "messages": [system, user]})
    sent = [message["content"] for message in upstream.requests[0].json()["messages"]]
    assert sent == [system["content"], "I am <EMAIL_1>. Is Help@kestrel-ferry.com right?"]


async def test_the_scanned_text_is_forwarded() -> None:
    """The digest of the scanned texts equals that of the forwarded ones, which hold no personal data."""
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        await endpoint.ask(chat(f"Mail {MAIL}.", "Done.", f"And {CARD}?"))
        scanned = [s.text for s in endpoint.scanner.scanned[0].segments if s.path.endswith("content")]
    request_bytes = [message["content"] for message in upstream.requests[0].json()["messages"]]
    digests = [hashlib.sha256("\n".join(texts).encode()).hexdigest() for texts in (scanned, request_bytes)]
    assert digests[0] == digests[1]
    assert MAIL.encode() not in upstream.bodies[0]


async def test_a_body_without_personal_data_is_forwarded_byte_for_byte() -> None:
    """Including whitespace and key order."""
    raw = b'{ "model":"m",  "messages": [ {"role":"user","content":"Hi \\u00e9"} ] }'
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        reply = await endpoint.ask(raw, Content_Type="application/json")
    assert (upstream.bodies, "x-sidecar-redacted" in reply.headers) == ([raw], False)


async def test_every_field_is_redacted() -> None:
    """Tool calls and results, parts, and unknown fields; ids are unchanged."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"to": MAIL})}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": MAIL}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": f"sent to {MAIL}"},
    ]
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        await endpoint.ask({"model": "m", "messages": messages, "metadata": {"who": MAIL}})
    request_bytes = upstream.requests[0].json()
    assert MAIL.encode() not in upstream.bodies[0]
    assert json.loads(request_bytes["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"to": "<EMAIL_1>"}
    assert (request_bytes["messages"][2]["tool_call_id"], request_bytes["metadata"]) == ("call_1", {"who": "<EMAIL_1>"})


async def test_a_long_text_is_redacted_to_its_end() -> None:
    """Neither the early exit of a rule nor its limit of matches ends the redaction."""
    words = "ordinary words about the weather. " * 250
    text = f"{CARD} {words} {MAIL} {words} " + " ".join(f"p{n}@kestrel-ferry.com" for n in range(300))
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        reply = await endpoint.ask(chat(text))
    assert b"@" not in upstream.bodies[0]
    assert b"4111" not in upstream.bodies[0]
    assert reply.headers["x-sidecar-redacted"] == "302"


async def test_there_is_an_end_to_it() -> None:
    """A body that needs more than the bounded number of scans is refused."""
    text = " ".join(f"p{n}@kestrel-ferry.com" for n in range(600))
    with pytest.raises(BodyError, match="more personal data"):
        await Redactor(personal(), passes=2).redact({"messages": [{"role": "user", "content": text}]})
    with pytest.raises(BodyError, match="longer") as caught:
        await Redactor(personal()).redact({"messages": [{"role": "user", "content": "x" * ((1 << 20) + 1)}]})
    assert (caught.value.kind, caught.value.status) == ("oversize", 413)


async def test_an_attack_is_still_an_attack() -> None:
    """The redacted text is scanned."""
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        reply = await endpoint.ask(chat(f"EVIL {MAIL}"))
        assert endpoint.scanner.texts == ["EVIL <EMAIL_1>"]
    assert (reply.status, upstream.requests) == (400, [])


async def test_monitor_changes_nothing() -> None:
    """`mode: monitor` forwards the original body."""
    async with recording() as upstream, run_proxy(upstream.url, mode="monitor", **REDACT) as endpoint:
        await endpoint.ask(chat(MAIL))
    assert upstream.requests[0].json() == chat(MAIL)


@pytest.mark.parametrize("name", ["chat", "chat, tool call", "chat, reasoning", "response", "message"])
@pytest.mark.parametrize("responses", ["off", "flag", "block"])
async def test_values_come_back_in_the_answer(name: str, responses: str) -> None:
    """`answers.restore`: in plain and streamed responses with split placeholders; unknown placeholders stay."""
    place = PLACES[name]
    field = "messages" if "messages" in place.request else "input"
    question = place.request | {field: [{"role": "user", "content": f"Mail {MAIL}."}]}
    text = "I have written to <EMAIL_1>, and not to <EMAIL_2>. Shall <EMAIL_1> answer?"
    terms = REDACT | {"responses": responses, "answers": {"restore": True}}
    script = respond(json.dumps(place.response(text)).encode())
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        reply = await endpoint.ask(question, place.path)
        assert json.loads(reply.body) == place.response(text.replace("<EMAIL_1>", MAIL))
        upstream.script = stream(list(place.events(tokens(text, 3))))
        received = await endpoint.ask(question | {"stream": True}, place.path)
    assert _said(received.body) == _said(b"".join(place.events([text.replace("<EMAIL_1>", MAIL)])))


def _said(body: bytes) -> str:
    """All strings of all events in order, without event names and ids."""
    results = []
    for event in body.split(b"\n\n"):
        data = event.partition(b"data: ")[2]
        if data and data != b"[DONE]":
            _strings(json.loads(data), results)
    return "".join(results)


def _strings(value: object, results: list[str]) -> None:
    """The strings below members that hold text."""
    if isinstance(value, str):
        results.append(value)
    elif isinstance(value, list):
        for item in value:
            _strings(item, results)
    elif isinstance(value, dict):
        for name in SAID & set(value):
            _strings(value[name], results)


async def test_without_restore_the_answer_keeps_the_names() -> None:
    """And with it only if something was replaced."""
    body = json.dumps(PLACES["chat"].response("To <EMAIL_1>.")).encode()
    async with recording(respond(body)) as upstream:
        async with run_proxy(upstream.url, **REDACT) as endpoint:
            assert (await endpoint.ask(chat(MAIL))).body == body
        async with run_proxy(upstream.url, answers={"restore": True}, **REDACT) as endpoint:
            assert (await endpoint.ask(chat("Hello"))).body == body
    assert upstream.requests[1].header("accept-encoding") != "identity"


async def test_block_refuses_personal_data_that_the_scan_finds() -> None:
    """`pii: block`, with the real rules as scanner; nothing is forwarded."""
    async with recording() as upstream, run_proxy(upstream.url, pii="block") as endpoint:
        endpoint.scanner.layer = personal()
        reply = await endpoint.ask(chat(f"Mail {MAIL}."))
        assert (endpoint.decision.replaced, endpoint.decision.verdict.setting) == (0, "pii")
        assert (await endpoint.ask(chat("Mail nobody."))).status == 200
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "content_filter", "messages.0.content")
    assert len(upstream.requests) == 1


FILE = "data:text/plain;base64," + base64.b64encode(f"To {MAIL}".encode()).decode()
FIXED = {
    "a file": chat("Read this") | {"documents": [{"type": "file", "file": {"filename": "a.txt", "file_data": FILE}}]},
    "a name": chat("Hello") | {"metadata": {MAIL: "x"}},
}


@pytest.mark.parametrize("name", FIXED)
async def test_what_cannot_be_replaced_is_refused(name: str) -> None:
    """Personal data in an embedded file or a member name: a placeholder there would change the request."""
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        endpoint.scanner.layer = personal()
        reply = await endpoint.ask(FIXED[name])
    assert (reply.status, reply.error["code"], upstream.requests) == (400, "content_filter", [])


async def test_a_form_is_refused() -> None:
    """Forms are not rewritten."""
    form = f'--B\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nMail {MAIL}\r\n--B--\r\n'.encode()
    kind = "multipart/form-data; boundary=B"
    async with recording() as upstream, run_proxy(upstream.url, **REDACT) as endpoint:
        endpoint.scanner.layer = personal()
        reply = await endpoint.ask(form, "/v1/audio/transcriptions", Content_Type=kind)
    assert (reply.status, reply.error["code"], upstream.requests) == (400, "content_filter", [])
