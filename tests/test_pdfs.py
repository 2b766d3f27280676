"""PDFs in requests to the inline proxy: their text is scanned in every API; what is not read fails as configured."""

from __future__ import annotations

import base64
from typing import Any

import aiohttp
import pytest
from inline_proxy import run_proxy
from pdf_files import bomb, encrypted, pdf, picture, text_page
from recording import recording, respond

from sidecar.types import Source

ATTACK = pdf(text_page("Hello"), text_page("EVIL", colour="1 1 1 rg"))
HARMLESS = pdf(text_page("The report of the second quarter"))
ASCII = pdf(text_page("The report"), compressed=False).replace(b"\xe2\xe3\xcf\xd3", b"text")
CLOSED: dict[str, Any] = {"failure": {"input": {"media": "block"}}, "inline": {"pdf": {"deadline": "60s"}}}


def openai(data: str) -> tuple[str, Any]:
    """A file part of a chat."""
    part = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}}
    return "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": [part]}]}


def responses(data: str) -> tuple[str, Any]:
    """The same of the Responses API, with bare base64."""
    part = {"type": "input_file", "filename": "a.pdf", "file_data": data}
    return "/v1/responses", {"model": "m", "input": [{"role": "user", "content": [part]}]}


def anthropic(data: str) -> tuple[str, Any]:
    """A document of Anthropic's API."""
    part = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}
    return "/v1/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [part]}]}


def gemini(data: str) -> tuple[str, Any]:
    """An inline part of Google's API."""
    part = {"inlineData": {"mimeType": "application/pdf", "data": data}}
    return "/v1beta/models/m:generateContent", {"contents": [{"role": "user", "parts": [part]}]}


APIS = [openai, responses, anthropic, gemini]


@pytest.mark.parametrize("api", APIS)
async def test_an_attack_in_a_pdf_is_blocked(api: Any) -> None:
    """White text on its second page, too; nothing is forwarded."""
    path, body = api(base64.b64encode(ATTACK).decode())
    async with recording() as upstream, run_proxy(upstream.url, **CLOSED) as endpoint:
        reply = await endpoint.ask(body, path)
    assert (reply.status, upstream.connections) == (400, 0)
    segments = endpoint.scanner.scanned[0].segments
    assert [segment.source for segment in segments if "EVIL" in segment.text] == [Source.UNTRUSTED]


@pytest.mark.parametrize("data", [HARMLESS, ASCII])
@pytest.mark.parametrize("api", APIS)
async def test_a_pdf_that_is_read_is_no_longer_media(api: Any, data: bytes) -> None:
    """It passes although media are refused, and no header says that something was unscanned."""
    path, body = api(base64.b64encode(data).decode())
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, **CLOSED) as endpoint:
        reply = await endpoint.ask(body, path)
    assert (reply.status, reply.headers.get("x-sidecar-unscanned")) == (200, None)
    assert any("The report" in segment.text for segment in endpoint.scanner.scanned[0].segments)


UNREAD = {
    "encrypted": encrypted("EVIL", "secret"),
    "a scan": pdf(b"q 500 0 0 800 0 0 cm /I1 Do Q", more=picture()),
    "a bomb": bomb(1_000_000_000),
    "damaged": ATTACK[:300],
    "text that only looks like one": b"%PDF-1.4 1 0 obj, as the first line of a PDF says",
}


@pytest.mark.parametrize("media", ["block", "allow"])
@pytest.mark.parametrize("name", UNREAD)
async def test_what_is_not_read_follows_its_line(name: str, media: str) -> None:
    """Refused with 422, or forwarded and named; never an error of the server."""
    path, body = openai(base64.b64encode(UNREAD[name]).decode())
    settings = CLOSED | {"failure": {"input": {"media": media}}}
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, **settings) as endpoint:
        reply = await endpoint.ask(body, path)
    named = reply.headers.get("x-sidecar-unscanned")
    assert (reply.status, named) == ((422, None) if media == "block" else (200, "media"))
    assert upstream.connections == (0 if media == "block" else 1)


async def test_an_ascii_pdf_is_media_where_none_is_read() -> None:
    """Being text throughout, it was once taken for a text that is scanned as it stands."""
    path, body = openai(base64.b64encode(ASCII).decode())
    settings = CLOSED | {"inline": {"pdf": {"enabled": False}}}
    async with recording() as upstream, run_proxy(upstream.url, **settings) as endpoint:
        reply = await endpoint.ask(body, path)
    assert (reply.status, upstream.connections) == (422, 0)


@pytest.mark.parametrize(("data", "status"), [(ATTACK, 400), (HARMLESS, 200), (UNREAD["encrypted"], 422)])
async def test_a_pdf_in_a_form_is_read(data: bytes, status: int) -> None:
    """An uploaded file is read like one in JSON."""
    form = aiohttp.FormData({"purpose": "user_data"})
    form.add_field("file", data, filename="a.pdf", content_type="application/pdf")
    settings = CLOSED | {"inline": {"files": "scan_jsonl", "pdf": {"deadline": "60s"}}}
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, **settings) as endpoint:
        reply = await endpoint.session.post(f"{endpoint.url}/files", data=form)
    assert reply.status == status
    assert upstream.connections == (1 if status == 200 else 0)


async def test_a_rewritten_body_keeps_the_scan_of_its_pdf() -> None:
    """Where turns are stripped, the PDFs that remain are read again before anything is forwarded."""
    part = openai(base64.b64encode(ATTACK).decode())[1]["messages"][0]
    refused = [{"role": "user", "content": "EVIL"}, {"role": "assistant", "content": "No."}]
    body = {"model": "m", "messages": [*refused, part]}
    async with recording() as upstream, run_proxy(upstream.url, **CLOSED, history="strip") as endpoint:
        reply = await endpoint.ask(body)
    assert (reply.status, upstream.connections) == (400, 0)
