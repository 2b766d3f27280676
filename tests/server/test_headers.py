"""Tests `sidecar.server.headers`: which fields are forwarded, and which keys belong to the sidecar."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from sidecar.server.headers import client_headers, is_websocket, scan_key, sidecar_key, upstream_headers


def forwarded(*fields: tuple[str, str], decoded: bool = False) -> list[tuple[str, str]]:
    """The fields that are forwarded to the upstream."""
    return list(upstream_headers(CIMultiDict(fields), decoded=decoded).items())


@pytest.mark.parametrize(
    "name",
    [
        *("Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Authorization", "Host"),
        *("Content-Length", "Expect", "X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL", "X-Sidecar-Action"),
    ],
)
def test_fields_of_one_connection_and_overrides_do_not_go_up(name: str) -> None:
    """They are dropped in any case."""
    assert forwarded((name, "x"), (name.upper(), "x")) == []


def test_fields_named_in_connection_do_not_go_up() -> None:
    """Fields listed in Connection are hop-by-hop as well (RFC 9110)."""
    assert forwarded(("Connection", "close, X-Mine"), ("x-mine", "1"), ("X-Other", "2")) == [("X-Other", "2")]


def test_everything_else_goes_up_in_order_and_spelling() -> None:
    """Other fields keep order and spelling, including repeated ones."""
    fields = [
        ("Authorization", "Bearer sk-1"),
        ("openai-beta", "a"),
        ("OpenAI-Beta", "b"),
        ("Content-Encoding", "gzip"),
    ]
    assert forwarded(*fields) == fields


def test_the_coding_of_a_decoded_body_does_not_go_up() -> None:
    """The coding no longer applies to a decoded body."""
    assert forwarded(("Content-Encoding", "gzip"), decoded=True) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-API-Key", "psk_1"),
        ("x-api-key", " psk_1"),
        ("Api-Key", "psk_1"),
        ("Authorization", "Bearer psk_1"),
        ("Authorization", "bearer   psk_1"),
        ("Authorization", "psk_1"),
        ("Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.psk_1"),
    ],
)
def test_keys_of_the_sidecar_are_found_and_stay_here(name: str, value: str) -> None:
    """A sidecar key is found in every field that clients use, and is not forwarded."""
    assert forwarded((name, value)) == []
    assert sidecar_key(CIMultiDict([("Authorization", "Bearer sk-1"), (name, value)])) == "psk_1"


@pytest.mark.parametrize("value", ["Basic psk_1", "Bearer\tpsk_1", "Token token=psk_1", "x, Bearer psk_1"])
def test_a_key_in_an_odd_place_of_a_credential_stays_here_too(value: str) -> None:
    """A field with a sidecar key in an unusual position is dropped entirely."""
    assert forwarded(("Authorization", value)) == []


def test_other_credentials_are_no_keys_of_the_sidecar() -> None:
    """Credentials of other formats are left to the upstream."""
    assert sidecar_key(CIMultiDict([("Authorization", "Bearer sk-1"), ("X-API-Key", "x"), ("X-Mine", "psk_1")])) is None


def test_of_an_answer_only_what_belongs_to_the_connection_stays_up() -> None:
    """Length and coding pass; hop-by-hop and `x-sidecar-` fields of the upstream are dropped."""
    fields = [("Content-Length", "3"), ("Content-Encoding", "gzip"), ("Set-Cookie", "a"), ("Set-Cookie", "b")]
    hop = [("Connection", "x-gone"), ("X-Gone", "1"), ("Transfer-Encoding", "chunked"), ("x-sidecar-action", "allow")]
    assert list(client_headers(CIMultiDict(fields + hop)).items()) == fields


@pytest.mark.parametrize(("value", "asks"), [("websocket", True), ("h2c, WebSocket", True), ("h2c", False)])
def test_who_asks_for_a_socket(value: str, *, asks: bool) -> None:
    """Only an upgrade to a websocket is recognized; others are ignored."""
    assert is_websocket(CIMultiDict({"Upgrade": value})) is asks


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ([("X-API-Key", "psk_a")], "psk_a"),
        ([("Authorization", "Bearer psk_b")], "psk_b"),
        ([("Authorization", "bearer  psk_b ")], "psk_b"),
        ([("Authorization", "Bearer psk_b"), ("X-API-Key", "psk_a")], "psk_a"),
        ([("Authorization", "Bearer psk_b"), ("X-API-Key", "")], ""),
        ([("Authorization", "Basic psk_b")], None),
        ([("Authorization", "psk_b")], None),
        ([], None),
    ],
)
def test_a_scan_takes_a_key_or_a_bearer_token_and_the_key_decides(
    fields: list[tuple[str, str]], key: str | None
) -> None:
    """Whatever the other says; other schemes are no keys."""
    assert scan_key(CIMultiDict(fields)) == key
