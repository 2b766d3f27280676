"""Twin of sidecar/response_scan/sse.py: one event is read as a client reads it, or not at all."""

from __future__ import annotations

import pytest

from sidecar.response_scan.sse import Unreadable, dump_json, load_json, parse_event, split_events

DELTA = b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n'


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_is_read_whatever_ends_its_lines(end: bytes) -> None:
    """Names, comments and several data lines as the standard says."""
    raw = end.join([b": hi", b"event: x", b'data: {"choices": [{"delta":', b'data: {"content": "Hi"}}]}', b"", b""])
    event = parse_event(raw)
    assert ([piece.text for piece in event.pieces], event.size, event.encode()) == (["Hi"], 2, raw)


def test_events_are_cut_one_by_one() -> None:
    """What has no end is the last."""
    assert list(split_events(DELTA + b"data: 1\r\n\r\n: x\r\rdata:")) == [
        DELTA,
        b"data: 1\r\n\r\n",
        b": x\r\r",
        b"data:",
    ]


@pytest.mark.parametrize("raw", [b": ping\n\n", b"data:\n\n", b"\n\n", b"event: x\n\n", b"\xef\xbb\xbf: hi\n\n"])
def test_an_event_without_data_says_nothing(raw: bytes) -> None:
    """Keep-alives pass."""
    assert (parse_event(raw).pieces, parse_event(raw).last) == ([], False)


@pytest.mark.parametrize("data", [b"[DONE]", b'{"type": "message_stop"}', b'{"type": "response.completed"}'])
def test_the_last_event_is_known(data: bytes) -> None:
    """In every API's own words."""
    assert parse_event(b"data: " + data + b"\n\n").last


@pytest.mark.parametrize("raw", [b"data: Hello\n\n", b"data: {\n\n", b'data: {"a": 1}\n\rdata: {"b": 2}\n\n'])
def test_what_a_client_may_read_otherwise_is_unreadable(raw: bytes) -> None:
    """Plain text, half JSON, and two events in what looks like one."""
    with pytest.raises(Unreadable):
        parse_event(raw)


def test_a_changed_event_keeps_its_name() -> None:
    """Only its data are written anew."""
    event = parse_event(b"event: e\nid: 7\n" + DELTA)
    event.pieces[0].replace("Ho")
    event.changed = True
    assert event.encode() == b'event: e\nid: 7\ndata: {"choices":[{"index":0,"delta":{"content":"Ho"}}]}\n\n'


@pytest.mark.parametrize("data", [b'{"a": NaN}', b'{"a": "\\ud83d"}'])
def test_json_is_read_as_kindly_as_clients_do(data: bytes) -> None:
    """And can be written again."""
    assert isinstance(load_json(data), dict)
    assert dump_json(load_json(data))
