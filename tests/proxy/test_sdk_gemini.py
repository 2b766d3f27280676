"""Google's official SDK as a black box at `generateContent`: the Gemini API, and Vertex AI's paths."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials
from inline_proxy import ATTACK, InlineProxy, personal, run_proxy
from recording import Received, Recording, recording, respond, stream
from speech import LEAK, PLAIN, SYSTEM, tokens

PATIENT = {"upstream": {"first_byte_timeout": 20.0, "idle_timeout": 20.0}}
BENIGN = "What is the capital of France?"
TOOL = types.Tool(function_declarations=[types.FunctionDeclaration(name="weather", description="Looks it up.")])
RESULT = types.Part.from_function_response(name="weather", response={"result": ATTACK})
CALL = types.Part.from_function_call(name="weather", args={"city": "Paris"})
HOP = {"host", "connection", "content-length"}
Call = Callable[[genai.Client], Any]


def chunk(text: str, reason: str | None = None, **part: Any) -> dict[str, Any]:
    """A response, or one chunk of a stream."""
    candidate: dict[str, Any] = {"content": {"parts": [{"text": text, **part}], "role": "model"}, "index": 0}
    return {
        "candidates": [candidate | ({"finishReason": reason} if reason else {})],
        "modelVersion": "m",
        "x_new": [1.5],
    }


def events(text: str) -> list[bytes]:
    """A stream as Google sends it."""
    chunks = [*map(chunk, tokens(text)), chunk("", "STOP")]
    return [b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in chunks]


async def answer(received: Received, writer: Any) -> None:
    """An upstream that answers like Google."""
    method = received.target.partition("?")[0].rpartition(":")[2]
    if method == "streamGenerateContent":
        await stream(events("Paris, of course."))(received, writer)
        return
    bodies = {"countTokens": {"totalTokens": 7}, "batchEmbedContents": {"embeddings": [{"values": [0.5, 1.0]}]}}
    body = bodies.get(method, {"models": []} if method.startswith("/") else chunk("Paris.", "STOP"))
    await respond(json.dumps(body).encode())(received, writer)


def base(endpoint: InlineProxy | Recording) -> str:
    """The SDK puts the version in front of its paths itself."""
    return endpoint.url.removesuffix("/v1")


def client(url: str, *, vertex: bool = False) -> genai.Client:
    """The SDK, for the Gemini API or for Vertex AI."""
    if vertex:
        options = types.HttpOptions(base_url=url, api_version="v1beta1")
        credentials: Any = Credentials(token="ya29.client")
        return genai.Client(
            enterprise=True, project="p-1", location="us-central1", credentials=credentials, http_options=options
        )
    return genai.Client(api_key="AIza-client", http_options=types.HttpOptions(base_url=url))


async def run(call: Call, url: str, *, vertex: bool = False) -> Any:
    """One call; a stream is read to its end."""

    def blocking() -> Any:
        with client(url, vertex=vertex) as sdk:
            found = call(sdk)
            return list(found) if isinstance(found, Iterator) else found

    return await asyncio.to_thread(blocking)


SYSTEM_SAID = types.GenerateContentConfig(system_instruction="Be brief.", tools=[TOOL], temperature=0.5)
CALLS: dict[str, Call] = {
    "generate": lambda c: c.models.generate_content(model="m", contents=BENIGN, config=SYSTEM_SAID),
    "stream": lambda c: c.models.generate_content_stream(model="m", contents=BENIGN),
    "count": lambda c: c.models.count_tokens(model="m", contents=BENIGN),
    "embed": lambda c: c.models.embed_content(model="m", contents=["one", "two"]),
    "models": lambda c: c.models.list(),
}
ATTACKS: dict[str, Call] = {
    "generate": lambda c: c.models.generate_content(model="m", contents=ATTACK),
    "stream": lambda c: c.models.generate_content_stream(model="m", contents=ATTACK),
    "result": lambda c: c.models.generate_content(
        model="m", contents=[types.UserContent("Hi"), types.ModelContent([CALL]), types.UserContent([RESULT])]
    ),
    "system": lambda c: c.models.generate_content(
        model="m", contents=BENIGN, config=types.GenerateContentConfig(system_instruction=ATTACK)
    ),
    "count": lambda c: c.models.count_tokens(model="m", contents=ATTACK),
}


def plain(value: Any) -> Any:
    """An object of the SDK as plain data, without the header fields of the response."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    data = value.model_dump() if hasattr(value, "model_dump") else value
    return {name: data[name] for name in data if name != "sdk_http_response"} if isinstance(data, dict) else repr(data)


def wire(recorder: Recording) -> list[tuple[str, list[tuple[str, str]], bytes]]:
    """Request lines, fields and bodies without what belongs to the connection."""
    return [(r.line, sorted(field for field in r.fields if field[0] not in HOP), r.body) for r in recorder.requests]


@pytest.fixture
async def upstream() -> AsyncIterator[Recording]:
    """An upstream that answers like Google."""
    async with recording(answer) as endpoint:
        yield endpoint


@pytest.mark.parametrize("responses", ["off", "block"])
@pytest.mark.parametrize("name", CALLS)
async def test_the_sdk_gets_the_same_through_the_proxy_as_directly(
    upstream: Recording, name: str, responses: str
) -> None:
    """The same objects, and the same bytes and fields at the upstream, whether responses are scanned or not."""
    direct = plain(await run(CALLS[name], upstream.url))
    observed = wire(upstream)
    upstream.requests.clear()
    async with run_proxy(upstream.url, responses=responses, **PATIENT) as endpoint:
        assert plain(await run(CALLS[name], base(endpoint))) == direct
    received = wire(upstream)
    if responses == "block" and name in {"generate", "stream"}:  # it asks for a response that it can read
        observed, received = ([(line, body) for line, _, body in each] for each in (observed, received))
    assert received == observed
    assert len(received) == 1


async def test_vertex_ais_paths_are_served(upstream: Recording) -> None:
    """With the model's name from the path in the log; the client's token goes on."""
    async with run_proxy(upstream.url, **PATIENT) as endpoint:
        found = await run(CALLS["generate"], base(endpoint), vertex=True)
        assert found.text == "Paris."
        assert endpoint.decision.model == "m"
    assert "/projects/p-1/locations/us-central1/publishers/google/models/m:generateContent" in upstream.requests[0].line


@pytest.mark.parametrize("vertex", [False, True])
@pytest.mark.parametrize("name", ATTACKS)
async def test_a_block_is_one_client_error_after_one_attempt(upstream: Recording, name: str, vertex: bool) -> None:
    """In Google's envelope; the SDK does not try again, and the upstream saw nothing."""
    async with run_proxy(upstream.url) as endpoint:
        with pytest.raises(errors.ClientError) as caught:
            await run(ATTACKS[name], base(endpoint), vertex=vertex)
        assert len(endpoint.scanner.scanned) == 1
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
    assert caught.value.details["error"]["sidecar"]["threats"] == ["prompt_injection"]
    assert upstream.connections == 0


@pytest.mark.parametrize("name", ["generate", "stream"])
async def test_a_refusal_is_an_answer_after_one_attempt(upstream: Recording, name: str) -> None:
    """`block.style: refusal`: a candidate whose finish reason says why it ends."""
    async with run_proxy(upstream.url, block={"style": "refusal", "message": "Not this."}) as endpoint:
        found = await run(ATTACKS[name], base(endpoint))
    last = found[-1] if isinstance(found, list) else found
    assert last.text.startswith("Not this:")
    assert last.candidates[0].finish_reason is types.FinishReason.SAFETY
    assert upstream.connections == 0


@pytest.mark.parametrize("style", ["error", "refusal"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_leak_in_an_answer_is_withheld_after_one_attempt(style: str, streamed: bool) -> None:
    """`responses: block`: an error, in mid-stream, too; or an answer that ends with its reason."""
    script = stream(events(LEAK)) if streamed else respond(json.dumps(chunk(LEAK, "STOP")).encode())
    config = types.GenerateContentConfig(system_instruction=SYSTEM)
    terms: dict[str, Any] = {"responses": "block", "block": {"style": style}} | PATIENT
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        received: list[Any] = []

        def ask(sdk: genai.Client) -> None:
            if not streamed:
                received.append(sdk.models.generate_content(model="m", contents="Hello?", config=config))
                return
            for each in sdk.models.generate_content_stream(model="m", contents="Hello?", config=config):
                received.append(each)  # noqa: PERF402 - kept if the stream breaks off

        if style == "error":
            with pytest.raises(Exception) as caught:  # noqa: PT011 - in mid-stream it is that of the HTTP library
                await run(ask, base(endpoint))
            assert streamed or isinstance(caught.value, errors.ClientError)
        else:
            await run(ask, base(endpoint))
            assert received[-1].candidates[0].finish_reason is types.FinishReason.SAFETY
    assert "flood" not in repr([plain(each) for each in received])
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(("text", "status"), [(PLAIN, 200), (LEAK, 400)])
async def test_a_stream_as_a_list_is_read_as_one_text(text: str, status: int) -> None:
    """Without `alt=sse` the chunks are items of a list; a leak that is split over them is found."""
    body = json.dumps([chunk(part) for part in tokens(text)], indent=1).encode()
    request = {"systemInstruction": {"parts": [{"text": SYSTEM}]}, "contents": [{"parts": [{"text": "Hello?"}]}]}
    async with recording(respond(body)) as upstream, run_proxy(upstream.url, responses="block", **PATIENT) as endpoint:
        reply = await endpoint.ask(request, "/v1beta/models/m:streamGenerateContent")
        assert reply.status == status
        assert (reply.body == body) is (status == 200)
        blocked = await endpoint.ask(
            {"contents": [{"parts": [{"text": ATTACK}]}]}, "/v1beta/models/m:streamGenerateContent"
        )
        assert blocked.error["status"] == "INVALID_ARGUMENT"


async def test_a_withheld_stream_as_a_list_is_a_list() -> None:
    """As the client reads it."""
    body = json.dumps([chunk(part) for part in tokens(LEAK)]).encode()
    request = {"systemInstruction": {"parts": [{"text": SYSTEM}]}, "contents": [{"parts": [{"text": "Hello?"}]}]}
    terms: dict[str, Any] = {"responses": "block", "block": {"style": "refusal"}} | PATIENT
    async with recording(respond(body)) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        reply = await endpoint.ask(request, "/v1beta/models/m:streamGenerateContent")
    (only,) = json.loads(reply.body)
    assert (reply.status, only["candidates"][0]["finishReason"]) == (200, "SAFETY")


async def test_a_refusal_of_a_stream_as_a_list_is_a_list() -> None:
    """As the client reads it."""
    async with recording() as upstream, run_proxy(upstream.url, block={"style": "refusal"}) as endpoint:
        body = {"contents": [{"parts": [{"text": ATTACK}]}]}
        reply = await endpoint.ask(body, "/v1beta/models/m:streamGenerateContent")
    (only,) = json.loads(reply.body)
    assert only["candidates"][0]["finishReason"] == "SAFETY"


async def test_personal_data_is_replaced_and_restored() -> None:
    """`pii: redact`: the upstream gets placeholders, the client its own values, in a stream, too."""
    mail = "jon.frey@seepost.ch"
    script = stream(events("I wrote to <EMAIL_1> for you."))
    terms: dict[str, Any] = {"pii": "redact", "answers": {"restore": True}} | PATIENT
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        endpoint.scanner.layer = personal()
        call: Call = lambda c: c.models.generate_content_stream(model="m", contents=f"To {mail}!")  # noqa: E731
        chunks = await run(call, base(endpoint))
    assert "".join(each.text or "" for each in chunks) == f"I wrote to {mail} for you."
    assert mail.encode() not in upstream.requests[0].body
    assert b"<EMAIL_1>" in upstream.requests[0].body


async def test_the_key_of_the_sidecar_stays_with_it(upstream: Recording) -> None:
    """In Google's header, too; in the query no key can be removed, so it is refused."""
    body = {"contents": [{"parts": [{"text": BENIGN}]}]}
    path = "/v1beta/models/m:generateContent"
    async with run_proxy(upstream.url) as endpoint:
        assert (await endpoint.ask(body, f"{path}?key=psk_abcdefgh0")).status == 400
        assert (await endpoint.ask(body, f"{path}?key=AIza-client")).status == 200
    assert [received.target for received in upstream.requests] == [f"{path}?key=AIza-client"]


async def test_a_scanner_that_is_down_is_a_server_error(upstream: Recording) -> None:
    """503 in Google's envelope; nothing is forwarded meanwhile."""
    async with run_proxy(upstream.url) as endpoint:
        endpoint.scanner.cause = "deadline"
        with pytest.raises(errors.ServerError) as caught:
            await run(CALLS["generate"], base(endpoint))
    assert caught.value.status == "UNAVAILABLE"
    assert upstream.connections == 0
