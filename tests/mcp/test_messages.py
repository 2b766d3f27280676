"""Tests of JSON-RPC messages: what is one, its kind, and the request that a response answers."""

from __future__ import annotations

import json

import pytest

from sidecar.errors import BodyError
from sidecar.mcp.messages import (
    MAX_PENDING,
    Pending,
    Request,
    encode,
    find_id,
    is_request,
    is_response,
    parse,
    shorten,
)
from sidecar.storage import MAX_NAME


def test_one_message_or_a_batch_is_parsed() -> None:
    """A batch stays one when it is written."""
    one = parse(b'{"id": 1}', depth=64)
    assert (one.messages, one.is_batch) == (({"id": 1},), False)
    batch = parse(b'[{"id": 1}]', depth=64)
    assert (batch.messages, batch.is_batch) == (({"id": 1},), True)
    assert encode([{"id": 1}], is_batch=True) == b'[{"id":1}]'
    assert encode([{"id": 1}], is_batch=False) == b'{"id":1}'
    assert encode([], is_batch=True) is None


@pytest.mark.parametrize(
    "raw", [b"server started", b"[]", b"3", b'[{"id": 1}, 2]', b'{"id": 1, "id": 2}', b'{"a": NaN}']
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    """Nor what two parsers read differently."""
    with pytest.raises(BodyError):
        parse(raw, depth=64)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id": 1, "method": null, "result": {}}',
        b'{"id": 1, "method": ""}',
        b'{"id": 1, "method": "x", "result": {}}',
        b'{"id": 1, "method": "x", "error": {}}',
        b'{"id": 1, "Method": "x"}',
        b'{"id": true, "method": "x"}',
        b'{"id": {"a": 1}, "method": "x"}',
        b'{"id": [1], "result": {}}',
        b'{"id": "' + b"x" * 257 + b'", "method": "x"}',
    ],
)
def test_what_could_be_taken_for_another_kind_is_refused(raw: bytes) -> None:
    """A response is none beside a method, and an id is short and a string or a number."""
    with pytest.raises(BodyError):
        parse(raw, depth=64)


def test_a_response_with_its_id_in_another_form_finds_its_request() -> None:
    """As in clients that take the forms for each other."""
    for sent, received in ((1, "1"), ("7", 7), (1, 1.0), (2.0, 2), (-3, "-3")):
        pending = Pending()
        pending.add({"id": sent, "method": "tools/list"})
        assert pending.take(received) == Request("tools/list")
    for other in (None, "x", 1.5, 1e300, "\u0661"):
        pending = Pending()
        pending.add({"id": 1, "method": "tools/list"})
        assert pending.take(other) is None


def test_what_is_kept_of_a_request_is_short() -> None:
    """Names and cursors of any length stay apart."""
    pending = Pending()
    pending.add({"id": 1, "method": "m" * 999, "params": {"name": "n" * 999, "cursor": "c" * 999}})
    request = pending.take(1)
    assert request is not None
    assert request == Request(shorten("m" * 999), shorten("n" * 999), shorten("c" * 999))
    assert {len(request.method), len(request.tool), len(request.cursor or "")} == {MAX_NAME}
    assert shorten("c" * 999) != shorten("c" * 998)
    assert shorten("c" * MAX_NAME) == "c" * MAX_NAME


def test_names_that_resemble_those_of_the_chat_apis_are_allowed() -> None:
    """A tool may call its own fields as it likes."""
    assert parse(b'{"result": {"content": {"Name": "x", "ROLE": "y"}}}', depth=64).messages
    with pytest.raises(BodyError, match="deeper"):
        parse(b'{"a": {"b": {"c": {}}}}', depth=2)


def test_requests_responses_and_notifications_are_told_apart() -> None:
    """By method and id; an error for a message that was not understood has a null id."""
    messages = [{"method": "a", "id": 0}, {"method": "a"}, {"id": 0, "result": {}}, {"id": None, "error": {}}]
    assert [is_request(one) for one in messages] == [True, False, False, False]
    assert [is_response(one) for one in messages] == [False, False, True, True]


def test_a_response_finds_its_request_once() -> None:
    """Ids of different types differ."""
    pending = Pending()
    pending.add({"id": 1, "method": "tools/call", "params": {"name": "find"}})
    pending.add({"id": "1", "method": "tools/list", "params": {"cursor": "p2"}})
    assert pending.take(1) == Request("tools/call", "find")
    assert pending.take("1") == Request("tools/list", "", "p2")
    assert pending.take(1) is None


def test_requests_that_are_never_answered_are_forgotten() -> None:
    """The oldest first."""
    pending = Pending()
    for number in range(MAX_PENDING + 1):
        pending.add({"id": number, "method": "ping"})
    assert pending.take(0) is None
    assert pending.take(MAX_PENDING) == Request("ping")


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"jsonrpc": "2.0", "id": 17, "result": {"text": "' + b"x" * 9000, 17),
        (b'{"result": {"text": "' + b"x" * 9000 + b'"}, "id":"a-1"}', "a-1"),
        (b'{"id": "\\u0041", ', None),
        (b"Listening on port 3", None),
        (b'{"id": 007, "result": {}}', None),
        (b'{"id": "\xff", "result": {}}', None),
        (b'{"id": 007, "result": {"text": "' + b"x" * 9000 + b'"}, "id": 7}', 7),
    ],
)
def test_the_id_of_an_unreadable_message_is_found(raw: bytes, found: object) -> None:
    """At its beginning or at its end, so that the request can be answered."""
    assert find_id(raw) == found


def test_what_is_written_is_json() -> None:
    """Whatever the texts."""
    assert json.loads(encode([{"id": 1, "error": {"message": "ü \x00"}}], is_batch=False) or b"")["id"] == 1
