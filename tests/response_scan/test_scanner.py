"""Twin of sidecar/response_scan/scanner.py: what a model must not say does not go down, whole or streamed."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import zlib
from functools import partial
from typing import Any

import pytest
from inline_proxy import InlineProxy, Reply, post, run_proxy
from recording import Received, Recording, Script, head, recording, respond, stream
from speech import LEAK, PLACES, PLAIN, SYSTEM, Place, tokens

from sidecar.response_scan.bodies import MAX_TEXTS

PATIENT = {"upstream": {"first_byte_timeout": 20.0, "idle_timeout": 20.0}}
EVERYTHING = {"answers": {"find": ["system_prompt", "pii", "secrets"]}}
BLOCK: dict[str, Any] = {"responses": "block"} | EVERYTHING | PATIENT
CHAT = PLACES["chat"]
MAIL = "Write to marlowe.vance@bellweather-hotel.com about it."
SECRET = "The key is AKIAIOSFODNN7QWERTZU, keep it."


def answering(place: Place, text: str, *headers: str) -> Script:
    """An upstream that says this in one piece."""
    return respond(json.dumps(place.response(text)).encode(), "200 OK", "application/json", *headers)


def streamed(place: Place, text: str, **terms: Any) -> Script:
    """An upstream that says this in small pieces."""
    return stream(list(place.events(tokens(text))), **terms)


async def ask(endpoint: InlineProxy, place: Place = CHAT, **fields: Any) -> Reply:
    """The place's request."""
    return await endpoint.ask(place.request | fields, place.path)


async def listen(endpoint: InlineProxy, place: Place = CHAT) -> tuple[bytes, bool]:
    """The body of a stream, and whether it ended cleanly."""
    content = (await endpoint.talk(post(place.request | {"stream": True}, place.path))).partition(b"\r\n\r\n")[2]
    body = b""
    while content:
        size, _, content = content.partition(b"\r\n")
        if int(size, 16) == 0:
            return body, True
        body, content = body + content[: int(size, 16)], content[int(size, 16) + 2 :]
    return body, False


@pytest.mark.parametrize("name", PLACES)
async def test_a_leak_is_an_error_in_place_of_the_answer(name: str) -> None:
    """In every field: 400 that no SDK tries again, with the threat and without a word of the answer."""
    place = PLACES[name]
    async with recording(answering(place, LEAK)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        reply = await ask(endpoint, place)
        outcomes = [(d.entrypoint, d.action, d.verdict.threats) for d in endpoint.decision_log.decisions]
    if name == "completion":  # this API has no system prompt
        assert reply.status == 200
        return
    assert (reply.status, reply.headers["x-should-retry"]) == (400, "false")
    assert (reply.headers["x-sidecar-answer"], reply.headers["x-sidecar-answer-threats"]) == (
        "block",
        "system_prompt_extraction",
    )
    assert b"flood" not in reply.body
    assert outcomes == [("inline", "allow", ()), ("answer", "block", ("system_prompt_extraction",))]


async def test_a_leak_that_stands_in_the_tokens_alone_is_withheld() -> None:
    """A whole answer and a stream whose `logprobs` spell the system prompt while the content is harmless."""

    def choice(name: str, text: str) -> dict[str, Any]:
        spelt = {"content": [{"token": word, "logprob": -0.1, "top_logprobs": []} for word in tokens(text)]}
        return {"index": 0, name: {"role": "assistant", "content": "Fine."}, "logprobs": spelt, "finish_reason": None}

    whole = {"object": "chat.completion", "choices": [choice("message", LEAK)]}
    async with (
        recording(respond(json.dumps(whole).encode(), "200 OK", "application/json")) as upstream,
        run_proxy(upstream.url, **BLOCK) as endpoint,
    ):
        assert (await ask(endpoint)).status == 400
    events = [
        {"object": "chat.completion.chunk", "choices": [choice("delta", word)]} for word in tokens(f"{PLAIN} {LEAK}")
    ]
    sent = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]
    async with recording(stream(sent)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        body, clean = await listen(endpoint)
        assert (b"content_filter" in body, clean) == (True, False)


@pytest.mark.parametrize("name", [name for name in PLACES if name != "completion"])
async def test_a_leak_in_mid_stream_is_an_error_event_and_a_dirty_end(name: str) -> None:
    """In every field; of the run of words itself nothing has gone down."""
    place = PLACES[name]
    text = f"{PLAIN} {PLAIN} {PLAIN} {LEAK} {PLAIN}"
    async with recording(streamed(place, text)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        body, clean = await listen(endpoint, place)
        outcomes = [(d.entrypoint, d.action) for d in endpoint.decision_log.decisions]
    sent = list(place.events(tokens(text)))
    passed = max(count for count in range(len(sent)) if body.startswith(b"".join(sent[:count])))
    assert (clean, b"withheld" in body[len(b"".join(sent[:passed])) :]) == (False, True)
    assert passed > 2 * len(PLAIN) / 4
    assert "never mention" not in "".join(tokens(text)[:passed])
    assert outcomes == [("inline", "allow"), ("answer", "block")]


@pytest.mark.parametrize("name", PLACES)
async def test_an_ordinary_answer_passes_byte_for_byte(name: str) -> None:
    """Blocking costs an innocent answer nothing but the wait, streamed or not, in the order in which it came."""
    place = PLACES[name]
    text = f"{PLAIN} {PLAIN}"
    body = json.dumps(place.response(text)).encode()
    async with recording(answering(place, text)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        reply = await ask(endpoint, place)
        assert (reply.status, reply.body) == (200, body)
        assert "x-sidecar-answer" not in reply.headers
        upstream.script = streamed(place, text)
        assert await listen(endpoint, place) == (b"".join(place.events(tokens(text))), True)
        assert {decision.entrypoint for decision in endpoint.decision_log.decisions} == {"inline"}


@pytest.mark.parametrize("text", [LEAK, MAIL, SECRET])
async def test_flag_passes_everything_and_says_so(text: str) -> None:
    """`responses: flag`: the same bytes, a header where there still can be one, and a record in any case."""
    body = json.dumps(CHAT.response(text)).encode()
    async with (
        recording(answering(CHAT, text)) as upstream,
        run_proxy(upstream.url, **PATIENT, **EVERYTHING, responses="flag") as endpoint,
    ):
        reply = await ask(endpoint)
        assert (reply.status, reply.body, reply.headers["x-sidecar-answer"]) == (200, body, "flag")
        upstream.script = streamed(CHAT, text)
        assert await listen(endpoint) == (b"".join(CHAT.events(tokens(text))), True)
        assert [d.action for d in endpoint.decision_log.decisions if d.entrypoint == "answer"] == ["flag", "flag"]


async def test_monitor_never_withholds() -> None:
    """`mode: monitor` turns a block into a flag."""
    async with (
        recording(answering(CHAT, LEAK)) as upstream,
        run_proxy(upstream.url, mode="monitor", **BLOCK) as endpoint,
    ):
        reply = await ask(endpoint)
    assert (reply.status, reply.headers["x-sidecar-answer"]) == (200, "flag")


@pytest.mark.parametrize(("text", "kinds"), [(MAIL, ["pii"]), (SECRET, ["secrets"]), (LEAK, ["system_prompt"])])
async def test_only_what_is_asked_for_is_found(text: str, kinds: list[str]) -> None:
    """`answers.find` names what counts."""
    others = sorted({"pii", "secrets", "system_prompt"} - set(kinds))
    async with recording(answering(CHAT, text)) as upstream:
        async with run_proxy(upstream.url, **(BLOCK | {"answers": {"find": kinds}})) as endpoint:
            assert (await ask(endpoint)).status == 400
        async with run_proxy(upstream.url, **(BLOCK | {"answers": {"find": others}})) as endpoint:
            assert (await ask(endpoint)).status == 200


async def test_what_the_user_said_himself_is_no_find() -> None:
    """A model may repeat an address to whoever gave it."""
    messages = [{"role": "user", "content": "Is marlowe.vance@bellweather-hotel.com a good address?"}]
    async with recording(answering(CHAT, MAIL)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        assert (await ask(endpoint, messages=messages)).status == 200
        assert (await ask(endpoint)).status == 400


async def test_the_canary_is_found_without_a_system_prompt() -> None:
    """However it is spelled."""
    terms = BLOCK | {"answers": {"canary": "quokka-seventeen-4711"}}
    script = answering(CHAT, "It says: Q-U-O-K-K-A seventeen 4711.")
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        reply = await ask(endpoint, messages=[{"role": "user", "content": "Hi"}])
    assert reply.headers["x-sidecar-answer-threats"] == "system_prompt_extraction"


@pytest.mark.parametrize("name", ["chat", "response", "message"])
async def test_the_refusal_style_withholds_with_a_finish_reason(name: str) -> None:
    """A stream then ends cleanly in the API's own words; a whole answer is replaced by one that says no."""
    place = PLACES[name]
    ends = {
        "chat": b'"finish_reason":"content_filter"}]}\n\ndata: [DONE]\n\n',
        "response": b'"incomplete_details":{"reason":"content_filter"}',
        "message": b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    }
    script, terms = streamed(place, f"{PLAIN} {PLAIN} {LEAK}"), BLOCK | {"block": {"style": "refusal"}}
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        body, clean = await listen(endpoint, place)
        upstream.script = answering(place, LEAK)
        reply = await ask(endpoint, place)
    assert clean
    assert ends[name] in body
    assert b"flood" not in body.replace(SYSTEM.encode(), b"")
    assert (reply.status, reply.headers["x-sidecar-answer"]) == (200, "block")
    assert b"withheld by the prompt scanner" in reply.body


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_compressed_answer_is_looked_at(coding: str) -> None:
    """Upstreams are asked not to compress; of those that do the answer is undone, and passed as it came."""
    pack = partial(gzip.compress, mtime=0) if coding == "gzip" else zlib.compress  # else it holds the second
    field = f"Content-Encoding: {coding}"

    def packed(text: str) -> Script:
        return respond(pack(json.dumps(CHAT.response(text)).encode()), "200 OK", "application/json", field)

    async with recording(packed(LEAK)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        assert (await ask(endpoint)).status == 400
        assert upstream.requests[0].header("accept-encoding") == "identity"
        upstream.script = packed(PLAIN)
        reply = await ask(endpoint)
    assert (reply.headers["Content-Encoding"], reply.body) == (coding, pack(json.dumps(CHAT.response(PLAIN)).encode()))


@pytest.mark.parametrize(("text", "ends"), [(PLAIN, True), (PLAIN + LEAK, False)])
async def test_a_compressed_stream_is_looked_at(text: str, ends: bool) -> None:
    """It goes down plain."""
    data = gzip.compress(b"".join(CHAT.events(tokens(text))))

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        fields = [f"Content-Length: {len(data)}", "Content-Encoding: gzip"]
        writer.write(head("200 OK", "text/event-stream", *fields) + data)

    async with recording(script) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        body, clean = await listen(endpoint)
    assert clean is ends
    assert (body == b"".join(CHAT.events(tokens(text)))) is ends


UNREADABLE = {
    "another coding": respond(b"\x0b\x02\x80", "200 OK", "application/json", "Content-Encoding: dcb"),
    "no JSON": respond(b"Sure! Never mention", "200 OK", "application/json"),
    "not gzip": respond(b"{}", "200 OK", "application/json", "Content-Encoding: gzip"),
    "cut gzip": respond(gzip.compress(b'{"a": 1}')[:-9], "200 OK", "application/json", "Content-Encoding: gzip"),
    "plain text": respond(b"Sure!", "200 OK", "text/plain"),
    "lines of JSON": respond(b'{"a": 1}\n{"a": 2}\n', "200 OK", "application/x-ndjson"),
    "too large": respond(b'{"a": "' + b"x" * 5000 + b'"}', "200 OK", "application/json"),
    "bomb": respond(
        gzip.compress(b'{"a": "' + b"x" * 5000 + b'"}'), "200 OK", "application/json", "Content-Encoding: gzip"
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_cannot_be_looked_at_follows_the_failure_policy(name: str) -> None:
    """`failure.answer`: closed is 503 that is not tried again; open passes it, named and recorded."""
    limit = {"body_bytes": 4000}
    async with recording(UNREADABLE[name]) as upstream:
        async with run_proxy(upstream.url, **(BLOCK | {"answers": limit})) as endpoint:
            reply = await ask(endpoint)
            assert (reply.status, reply.headers["x-should-retry"]) == (503, "false")
            assert reply.error["code"] == "scanner_unavailable"
        async with run_proxy(upstream.url, failure={"answer": "allow"}, **(BLOCK | {"answers": limit})) as endpoint:
            reply = await ask(endpoint)
            assert (reply.status, reply.headers["x-sidecar-answer"]) == (200, "unscanned")
            assert endpoint.decision_log.decisions[-1].verdict.failure == "unreadable"
        async with run_proxy(upstream.url, answers=limit, **PATIENT) as endpoint:
            assert (await ask(endpoint)).body == reply.body


@pytest.mark.parametrize(("value", "status"), [(b"1", 200), (b'"a"', 503)])
async def test_an_answer_with_more_texts_than_anybody_writes_cannot_be_looked_at(value: bytes, status: int) -> None:
    """Each text costs some work, so a large answer is not made of single letters; numbers cost none."""
    answer = b'{"choices": [' + b",".join([value] * (MAX_TEXTS + 1)) + b"]}"
    async with recording(respond(answer)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        assert (await ask(endpoint)).status == status


@pytest.mark.parametrize("setting", ["block", "allow"])
async def test_an_event_that_cannot_be_read_follows_the_failure_policy(setting: str) -> None:
    """Closed ends the stream; open passes the event in its place."""
    events = [*CHAT.events(["Hello ", "you."])]
    events.insert(2, b"data: {never\n\n")
    terms = BLOCK | {"failure": {"answer": setting}}
    async with recording(stream(events)) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        body, clean = await listen(endpoint)
    assert (clean, body == b"".join(events)) == ((True, True) if setting == "allow" else (False, False))
    assert (b"{never" in body) is (setting == "allow")


LATE = BLOCK | {"scan": {"deadline": "1ms"}}
MUCH = "The ferry leaves at seven from the old harbour, and not before. " * 900


async def test_an_answer_that_takes_too_long_to_look_at_follows_the_failure_policy() -> None:
    """`scan.deadline` holds for it: closed is 503 that is not tried again; open passes it, named and recorded."""
    async with recording(answering(CHAT, MUCH)) as upstream:
        async with run_proxy(upstream.url, **LATE) as endpoint:
            reply = await ask(endpoint)
            assert (reply.status, reply.headers["x-should-retry"]) == (503, "false")
            assert b"harbour" not in reply.body
            assert endpoint.decision_log.decisions[-1].action == "block"
        async with run_proxy(upstream.url, failure={"answer": "allow"}, **LATE) as endpoint:
            reply = await ask(endpoint)
            assert (reply.status, reply.headers["x-sidecar-answer"]) == (200, "unscanned")
            assert endpoint.decision_log.decisions[-1].verdict.failure == "unreadable"
        async with run_proxy(upstream.url, **BLOCK) as endpoint:
            assert (await ask(endpoint)).body == reply.body


@pytest.mark.parametrize("setting", ["block", "allow"])
async def test_a_look_at_a_stream_that_takes_too_long_follows_the_failure_policy(setting: str) -> None:
    """Closed ends the stream without what was waiting; open passes all of it, and says so in the log."""
    events, terms = [*CHAT.events([MUCH, "Bye."])], LATE | {"failure": {"answer": setting}}
    async with recording(stream(events)) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        body, clean = await listen(endpoint)
    assert clean is (setting == "allow")
    assert (b"harbour" in body) is clean
    assert endpoint.decision_log.decisions[-1].action == ("unscanned" if clean else "block")


@pytest.mark.parametrize("setting", ["block", "allow"])
async def test_a_system_prompt_that_takes_too_long_to_read_follows_the_failure_policy(setting: str) -> None:
    """Closed: 503 before anything is forwarded, so it may be tried again; open: passed, and named."""
    prompt = [{"role": "system", "content": MUCH}, {"role": "user", "content": "Hello."}]
    terms = LATE | {"failure": {"answer": setting}}
    async with recording(answering(CHAT, PLAIN)) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        reply = await ask(endpoint, messages=prompt)
    assert reply.status == (200 if setting == "allow" else 503)
    assert len(upstream.requests) == (setting == "allow")
    assert reply.headers.get("x-sidecar-answer") == ("unscanned" if setting == "allow" else None)


async def test_errors_and_other_routes_pass_as_they_are() -> None:
    """An error is the upstream's own word; embeddings and models say nothing."""
    error = json.dumps({"error": {"message": LEAK}}).encode()
    async with recording(respond(error, "400 Bad Request")) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        assert (await ask(endpoint)).body == error
        upstream.script = respond(b"not json", "200 OK", "application/json")
        assert (await endpoint.ask({"model": "m", "input": "a"}, "/v1/embeddings")).body == b"not json"
        assert upstream.requests[-1].header("accept-encoding") != "identity"


async def test_an_answer_of_an_operators_own_route_is_looked_at() -> None:
    """Such as Ollama's, where it is one document: its words are the model's, too."""
    request = CHAT.request | {"stream": False}
    terms = BLOCK | {"inline": {"routes": ["/api/chat"]}}
    answer = json.dumps({"message": {"role": "assistant", "content": LEAK}, "done": True}).encode()
    async with recording(respond(answer)) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        reply = await endpoint.ask(request, "/api/chat")
        upstream.script = respond(answer.replace(LEAK.encode(), b"Good morning."))
        assert (await endpoint.ask(request, "/api/chat")).status == 200
    assert (reply.status, reply.headers["x-sidecar-answer"]) == (400, "block")


@pytest.mark.parametrize("kind", ["text/vtt", "application/x-subrip", "text/plain", "audio/mpeg"])
@pytest.mark.parametrize("route", ["transcriptions", "speech"])
async def test_subtitles_and_sound_pass_as_they_are(kind: str, route: str) -> None:
    """No chat has written them; what cannot be read there is no failure."""
    body = b"WEBVTT\n\n00:00.000 --> 00:01.000\nHello.\n\xff"
    async with recording(respond(body, "200 OK", kind)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        reply = await endpoint.ask({"model": "m", "input": "Hello."}, f"/v1/audio/{route}")
    assert (reply.status, reply.body, "x-sidecar-answer" in reply.headers) == (200, body, False)


@pytest.mark.parametrize("end", ["cut", "reset"])
async def test_a_stream_that_breaks_off_gives_what_came_and_ends_dirty(end: str) -> None:
    """What was held back and is innocent goes down before the error."""
    sent = list(CHAT.events(tokens(PLAIN)))[:-2]
    async with (
        recording(stream(sent, pause=0.001, end=end)) as upstream,
        run_proxy(upstream.url, **BLOCK) as endpoint,
    ):
        body, clean = await listen(endpoint)
    assert not clean
    if end == "cut":
        assert body.startswith(b"".join(sent))
    assert b"broke off" in body


async def test_a_stream_is_held_back_by_no_more_than_the_window() -> None:
    """The first word arrives while the upstream is still speaking, and the rest waits in a bounded queue."""
    hold, pieces = 64, tokens(PLAIN * 4)
    events = list(CHAT.events(pieces))
    needed = 2 + -(-hold // 4) + 1  # the role, then the window, and the piece that pushes the first one out
    later = asyncio.Event()

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", "text/event-stream", "Transfer-Encoding: chunked"))
        for number, event in enumerate(events):
            if number == needed:
                await later.wait()
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        writer.write(b"0\r\n\r\n")

    async with (
        recording(script) as upstream,
        run_proxy(upstream.url, **(BLOCK | {"answers": {"hold": hold}})) as endpoint,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(CHAT.request | {"stream": True}))
        async with asyncio.timeout(10):
            await reader.readuntil(json.dumps(pieces[0]).encode())
            later.set()
            assert (await reader.read()).endswith(b"0\r\n\r\n")
        writer.close()


async def test_a_plain_word_goes_as_soon_as_two_more_have_come() -> None:
    """Long before the window is full: an ordinary answer is hardly held back."""
    events = list(CHAT.events(["Breakfast ", "starts ", "before ", "seven."]))
    later = asyncio.Event()

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", "text/event-stream", "Transfer-Encoding: chunked"))
        for number, event in enumerate(events):
            if number == 3:  # the role and two words
                await later.wait()
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        writer.write(b"0\r\n\r\n")

    async with recording(script) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(CHAT.request | {"stream": True}))
        async with asyncio.timeout(10):
            await reader.readuntil(b"Breakfast ")
            later.set()
            assert (await reader.read()).endswith(b"0\r\n\r\n")
        writer.close()


@pytest.mark.parametrize("size", [1, 4, 40, 400])
@pytest.mark.parametrize("answer", ["ann.archer@kestrel-ferry.com", "+49 151 2345 6789", "4111 1111 1111 1111"])
async def test_no_digit_of_personal_data_has_gone_when_it_is_found(answer: str, size: int) -> None:
    """However the stream is cut, and though plain words go at once."""
    text = f"{PLAIN} You can reach her under {answer} any time. {PLAIN}"
    async with (
        recording(stream(list(CHAT.events(tokens(text, size))))) as upstream,
        run_proxy(upstream.url, **BLOCK) as endpoint,
    ):
        body, clean = await listen(endpoint)
    sent = "".join(re.findall(r'"content": "([^"]*)"', body.decode()))
    assert (clean, b"withheld" in body) == (False, True)
    assert text.startswith(sent)
    assert len(sent) <= text.index(answer)


async def test_choices_that_speak_by_turns_are_told_apart() -> None:
    """A leak spread over the pieces of one choice is found though another one speaks in between."""
    other = list(PLACES["chat, third choice"].events(tokens(PLAIN * 2)))
    mixed = [event for pair in zip(CHAT.events(tokens(LEAK + PLAIN)), other, strict=False) for event in pair]
    async with recording(stream(mixed)) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        body, clean = await listen(endpoint)
    assert not clean
    assert b"withheld" in body


async def test_off_asks_nothing_of_the_upstream(recorder: Recording) -> None:
    """With `responses: off` headers and bytes are those of before."""
    compressed = gzip.compress(b"{}")
    recorder.script = respond(compressed, "200 OK", "application/json", "Content-Encoding: gzip")
    async with run_proxy(recorder.url, **PATIENT) as endpoint:
        reply = await endpoint.ask(CHAT.request, Accept_Encoding="br, gzip")
    assert recorder.requests[0].header("accept-encoding") == "br, gzip"
    assert (reply.body, "x-sidecar-answer" in reply.headers) == (compressed, False)


@pytest.fixture
async def recorder() -> Any:
    """An upstream whose script the test sets."""
    async with recording() as upstream:
        yield upstream


PINGS = {"chat": b": keepalive\n\n", "message": b'event: ping\ndata: {"type": "ping"}\n\n'}


@pytest.mark.parametrize("name", PINGS)
async def test_a_sign_of_life_passes_while_text_is_held(name: str) -> None:
    """Comments and pings carry no text; behind a proxy with a time-out they are what keeps the stream."""
    place, ping = PLACES[name], PINGS[name]
    first = next(iter(place.events(["The flood of "])))
    parts = [first, ping, ping]
    async with recording(stream(parts, end="stall")) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(place.request | {"stream": True}, place.path))
        async with asyncio.timeout(5):
            got = await reader.readuntil(ping)
        writer.close()
    assert ping in got


async def test_held_text_goes_when_nothing_more_comes() -> None:
    """A second after the last word: what might be the beginning of something waits no longer for its end."""
    events = list(CHAT.events(["The flood of the year"]))
    async with recording(stream(events[:2], end="stall")) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(CHAT.request | {"stream": True}, CHAT.path))
        async with asyncio.timeout(10):
            await reader.readuntil(b"flood of")
        writer.close()


@pytest.mark.parametrize("streams", [False, True])
async def test_a_late_scan_withholds_only_what_its_findings_would(*, streams: bool) -> None:
    """`responses: flag` that is late passes the answer, also where `actions` would withhold one."""
    terms = LATE | {"responses": "flag", "actions": {"mode": "block"}}
    script = stream([*CHAT.events([MUCH, "Bye."])]) if streams else answering(CHAT, MUCH)
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        body = (await listen(endpoint))[0] if streams else (await ask(endpoint)).body
        assert b"harbour" in body
        assert endpoint.decision_log.decisions[-1].action == "unscanned"
