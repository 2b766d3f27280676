"""Amazon's official SDK as a black box at Bedrock's runtime: signatures, Converse, InvokeModel, event streams."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

import boto3
import botocore.exceptions
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from inline_proxy import ATTACK, InlineProxy, personal, post, run_proxy
from recording import Received, Recording, recording, respond, stream
from speech import LEAK, PLAIN, SYSTEM, tokens

from sidecar.protocols.bedrock import STREAM_TYPE
from sidecar.util.aws_event_stream import encode

# botocore leaves the socket of a stream open in which an exception was sent.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PATIENT = {"upstream": {"first_byte_timeout": 20.0, "idle_timeout": 20.0}}
HOST = "bedrock-runtime.us-east-1.amazonaws.com"
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
MODEL = "anthropic.claude-3-haiku-20240307-v1:0"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"
BENIGN = [{"role": "user", "content": [{"text": "What is the capital of France?"}]}]
EVIL = [{"role": "user", "content": [{"text": ATTACK}]}]
TOOL_USE = {"toolUse": {"toolUseId": "t", "name": "weather", "input": {"City": "x"}}}
RESULT = [
    *BENIGN,
    {"role": "assistant", "content": [TOOL_USE]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {"Text": ATTACK}}]}}]},
]
TOOLS = {"tools": [{"toolSpec": {"name": "weather", "description": "Looks it up.", "inputSchema": {"json": {}}}}]}
CLAUDE = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9}
Call = Callable[[Any], Any]


def invoke(text: str) -> str:
    """The body of InvokeModel for one of Anthropic's models."""
    return json.dumps(CLAUDE | {"system": SYSTEM, "messages": [{"role": "user", "content": text}]})


CALLS: dict[str, Call] = {
    "converse": lambda c: c.converse(modelId=MODEL, messages=BENIGN, toolConfig=TOOLS, system=[{"text": "Be brief."}]),
    "profile": lambda c: c.converse(modelId=PROFILE, messages=BENIGN),
    "converse stream": lambda c: list(c.converse_stream(modelId=MODEL, messages=BENIGN)["stream"]),
    "invoke": lambda c: c.invoke_model(modelId=MODEL, body=invoke("Hello?"))["body"].read(),
    "invoke stream": lambda c: list(c.invoke_model_with_response_stream(modelId=MODEL, body=invoke("Hi?"))["body"]),
}
ATTACKS: dict[str, Call] = {
    "converse": lambda c: c.converse(modelId=MODEL, messages=EVIL),
    "converse stream": lambda c: c.converse_stream(modelId=MODEL, messages=EVIL),
    "result": lambda c: c.converse(modelId=PROFILE, messages=RESULT, toolConfig=TOOLS),
    "system": lambda c: c.converse(modelId=MODEL, messages=BENIGN, system=[{"text": ATTACK}]),
    "invoke": lambda c: c.invoke_model(modelId=MODEL, body=invoke(ATTACK)),
    "invoke stream": lambda c: c.invoke_model_with_response_stream(modelId=MODEL, body=invoke(ATTACK)),
    "titan": lambda c: c.invoke_model(modelId="amazon.titan-text-lite-v1", body=json.dumps({"inputText": ATTACK})),
}


def converse(text: str) -> dict[str, Any]:
    """A complete response of Converse."""
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    message = {"role": "assistant", "content": [{"text": text}]}
    return {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}


def _message(kind: str, payload: object) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return encode(headers, json.dumps(payload).encode())


def converse_messages(text: str) -> list[bytes]:
    """A stream of ConverseStream."""
    deltas = [{"contentBlockIndex": 0, "delta": {"text": part}, "p": "abcd"} for part in tokens(text)]
    return [
        _message("messageStart", {"role": "assistant", "p": "abc"}),
        *(_message("contentBlockDelta", delta) for delta in deltas),
        _message("contentBlockStop", {"contentBlockIndex": 0}),
        _message("messageStop", {"stopReason": "end_turn"}),
        _message("metadata", {name: converse("")[name] for name in ("usage", "metrics")}),
    ]


def invoke_messages(text: str) -> list[bytes]:
    """A stream of InvokeModelWithResponseStream, with the events of Anthropic's API."""
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": p}} for p in tokens(text)
    ]
    inner = [
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        *deltas,
        {"type": "message_stop"},
    ]
    chunks = [base64.b64encode(json.dumps(event).encode()).decode() for event in inner]
    return [_message("chunk", {"bytes": data, "p": "abcdefgh"}) for data in chunks]


async def answer(received: Received, writer: Any) -> None:
    """An upstream that answers like Bedrock."""
    method = received.target.rpartition("/")[2]
    streams = {"converse-stream": converse_messages, "invoke-with-response-stream": invoke_messages}
    if method in streams:
        await stream(streams[method]("Paris, of course."), content_type=STREAM_TYPE)(received, writer)
        return
    body = (
        converse("Paris.") if method == "converse" else {"type": "message", "content": [{"type": "text", "text": "Hi"}]}
    )
    await respond(json.dumps(body).encode())(received, writer)


def sdk(url: str, *, host: str = HOST, attempts: int = 1) -> Any:
    """The SDK with the proxy's address, and the name that the signature is for."""
    config = Config(retries={"max_attempts": attempts - 1, "mode": "standard"}, read_timeout=20)
    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id=KEYS.access_key,
        aws_secret_access_key=KEYS.secret_key,
        config=config,
    )
    client.meta.events.register(
        "before-sign.bedrock-runtime", lambda request, **_: request.headers.add_header("Host", host)
    )
    return client


def base(endpoint: InlineProxy) -> str:
    """The address without a version."""
    return endpoint.url.removesuffix("/v1")


def plain(value: Any) -> Any:
    """What a call returned, without the header fields."""
    return {name: value[name] for name in value if name != "ResponseMetadata"} if isinstance(value, dict) else value


async def run(call: Call, url: str, upstream: Recording | None = None, **options: Any) -> Any:
    """One call, blocking as the SDK is, signed for Amazon's host, or for that of the recorder."""
    options |= {"host": upstream.url.partition("//")[2]} if upstream else {}

    def blocking() -> Any:
        client = sdk(url, **options)
        try:
            return plain(call(client))
        finally:
            client.close()

    return await asyncio.to_thread(blocking)


def is_signature_valid(received: Received) -> bool:
    """Whether Amazon would accept the request, by the SDK's own algorithm over what arrived."""
    signed = re.search(r"SignedHeaders=([^,]*), Signature=(\w+)", received.header("authorization") or "")
    assert signed is not None
    headers = {name: received.header(name) or "" for name in signed[1].split(";")}
    url = f"https://{HOST}{received.target.removeprefix(f'http://{HOST}')}"
    request = AWSRequest("POST", url, headers, received.body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(KEYS, "bedrock", "us-east-1")
    canonical = auth.canonical_request(request)
    return bool(auth.signature(auth.string_to_sign(request, canonical), request) == signed[2])


def as_amazon(upstream: Recording) -> dict[str, Any]:
    """Settings under which the recorder receives what Amazon would, host name included: as a forward proxy."""
    return {"upstream": {"proxy": upstream.url, **PATIENT["upstream"]}}


@pytest.mark.parametrize("responses", ["off", "block"])
@pytest.mark.parametrize("name", CALLS)
async def test_the_signature_stays_valid_and_the_answer_the_same(name: str, responses: str) -> None:
    """Whether responses are scanned or not: the same objects, the same bytes, and a signature that Amazon accepts."""
    async with recording(answer) as upstream:
        direct = await run(CALLS[name], upstream.url)
        (first,) = upstream.requests
        assert is_signature_valid(first)
        upstream.requests.clear()
        async with run_proxy(f"http://{HOST}", responses=responses, **as_amazon(upstream)) as endpoint:
            assert await run(CALLS[name], base(endpoint)) == direct
            assert endpoint.decision.model in {MODEL, PROFILE}
    (received,) = upstream.requests
    assert received.header("host") == HOST
    assert (received.target, received.body) == (f"http://{HOST}{first.target}", first.body)
    assert is_signature_valid(received)


async def test_a_signature_for_another_host_is_refused_with_the_reason() -> None:
    """Amazon would only say that it does not match; with a credential of the sidecar's own it is not needed."""
    async with recording(answer) as upstream, run_proxy(upstream.url, **PATIENT) as endpoint:
        with pytest.raises(botocore.exceptions.ClientError, match=r"another host than that of the upstream"):
            await run(CALLS["converse"], base(endpoint))
        assert upstream.requests == []


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_block_is_one_validation_exception_after_one_attempt(name: str) -> None:
    """The SDK's own class; it does not try again, and the upstream saw nothing."""
    async with recording(answer) as upstream, run_proxy(upstream.url) as endpoint:
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            await run(ATTACKS[name], base(endpoint), attempts=3)
        assert len(endpoint.scanner.scanned) == 1
        assert upstream.connections == 0
    assert type(caught.value).__name__ == "ValidationException"
    assert "looks like an order to the assistant" in caught.value.response["Error"]["Message"]


@pytest.mark.parametrize("name", ["converse", "converse stream"])
async def test_a_refusal_is_an_answer_after_one_attempt(name: str) -> None:
    """`block.style: refusal`: a message, or the messages of a stream, that ends with `content_filtered`."""
    ask: Call = ATTACKS[name] if name == "converse" else lambda c: list(ATTACKS[name](c)["stream"])
    async with recording() as upstream, run_proxy(upstream.url, block={"style": "refusal"}) as endpoint:
        found = json.dumps(await run(ask, base(endpoint)))
        assert upstream.connections == 0
    assert "looks like an order" in found
    assert '"content_filtered"' in found


@pytest.mark.parametrize("name", ["converse", "converse stream", "invoke", "invoke stream"])
@pytest.mark.parametrize("style", ["error", "refusal"])
async def test_a_leak_in_an_answer_is_withheld_after_one_attempt(style: str, name: str) -> None:
    """`responses: block`: an exception, in mid-stream, too; Converse may end with `content_filtered` instead."""
    whole = respond(json.dumps(converse(LEAK)).encode())
    scripts = {
        "converse stream": stream(converse_messages(LEAK), content_type=STREAM_TYPE),
        "invoke stream": stream(invoke_messages(LEAK), content_type=STREAM_TYPE),
    }
    received: list[Any] = []

    def take(events: Any) -> None:
        with contextlib.closing(events):  # the SDK leaves a stream that broke off open
            received.extend(events)

    def ask(client: Any) -> None:
        system = [{"text": SYSTEM}]
        if name == "converse":
            received.append(client.converse(modelId=MODEL, messages=BENIGN, system=system))
        elif name == "invoke":
            received.append(client.invoke_model(modelId=MODEL, body=invoke("Hello?"))["body"].read())
        elif name == "converse stream":
            take(client.converse_stream(modelId=MODEL, messages=BENIGN, system=system)["stream"])
        else:
            take(client.invoke_model_with_response_stream(modelId=MODEL, body=invoke("Hello?"))["body"])

    terms: dict[str, Any] = {"responses": "block", "block": {"style": style}} | PATIENT
    async with recording(scripts.get(name, whole)) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        if style == "error" or name.startswith("invoke"):
            with pytest.raises(botocore.exceptions.ClientError) as caught:
                await run(ask, base(endpoint), upstream)
            assert caught.value.response["Error"]["Code"].lower() == "validationexception"
        else:
            await run(ask, base(endpoint), upstream)
            assert "content_filtered" in repr(received)
        assert len(upstream.requests) == 1
    bodies = b"".join(
        base64.b64decode(base64.b64encode(each["chunk"]["bytes"])) for each in received if "chunk" in each
    )
    assert "flood" not in repr(received)
    assert b"flood" not in bodies


@pytest.mark.parametrize(("failure", "status"), [("block", 503), ("allow", 200)])
async def test_a_stream_that_cannot_be_read_follows_the_failure_policy(failure: str, status: int) -> None:
    """Never passed silently: refused, or named in the header field of the response."""
    script = respond(b"\x00\x01", "200 OK", "application/octet-stream")
    terms: dict[str, Any] = {"responses": "block", "failure": {"answer": failure}} | PATIENT
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        reply = await endpoint.ask({"messages": BENIGN}, "/model/m/converse-stream")
        assert reply.status == status
        assert reply.headers["x-sidecar-answer"] == ("block" if failure == "block" else "unscanned")
    damaged = bytearray(converse_messages(PLAIN)[1])
    damaged[-1] ^= 1
    async with (
        recording(stream([bytes(damaged)], content_type=STREAM_TYPE)) as upstream,
        run_proxy(upstream.url, **terms) as endpoint,
    ):
        received = await endpoint.talk(post({"messages": BENIGN}, "/model/m/converse-stream"))
        assert (bytes(damaged) in received) is (failure == "allow")


async def test_a_signed_body_is_never_changed() -> None:
    """`pii: redact` refuses what it would replace, `history: strip` strips nothing, and no coding is undone."""
    mail = [{"role": "user", "content": [{"text": "My mail is jon.frey@seepost.ch, write to me."}]}]
    turns = [*EVIL, {"role": "assistant", "content": [{"text": "No."}]}, *BENIGN]
    async with (
        recording(answer) as upstream,
        run_proxy(upstream.url, pii="redact", history="strip", **PATIENT) as endpoint,
    ):
        endpoint.scanner.layer = personal()
        for messages in (mail, turns):
            with pytest.raises(botocore.exceptions.ClientError, match="ValidationException"):
                await run(lambda c, said=messages: c.converse(modelId=MODEL, messages=said), base(endpoint))
        coded = await endpoint.ask(b"x", "/model/m/converse", Content_Encoding="gzip", Content_Type="application/json")
        assert coded.status in {400, 415}
        assert upstream.connections == 0
        await run(CALLS["converse"], base(endpoint), upstream)
    assert len(upstream.requests) == 1


async def test_a_stored_prompt_is_named() -> None:
    """An ARN of a prompt in place of a model: its text is not in the request."""
    path = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aprompt%2FABC/converse"
    async with recording(answer) as upstream, run_proxy(upstream.url, **PATIENT) as endpoint:
        reply = await endpoint.ask({"promptVariables": {"x": {"text": "hello"}}}, path)
        assert reply.headers["x-sidecar-unscanned"] == "reference"
        assert upstream.requests[0].target == path
    refuse = {"input": {"reference": "block"}}
    async with recording(answer) as upstream, run_proxy(upstream.url, failure=refuse, **PATIENT) as endpoint:
        assert (await endpoint.ask({}, path)).status == 422


async def test_a_scanner_that_is_down_is_service_unavailable() -> None:
    """503 in Amazon's form, which the SDK tries again; nothing is forwarded meanwhile."""
    async with recording(answer) as upstream, run_proxy(upstream.url) as endpoint:
        endpoint.scanner.cause = "deadline"
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            await run(CALLS["converse"], base(endpoint))
        assert type(caught.value).__name__ == "ServiceUnavailableException"
        assert upstream.connections == 0
