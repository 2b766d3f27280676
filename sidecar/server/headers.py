"""Which header fields pass, up and down. What is not named here passes untouched."""

from __future__ import annotations

from collections.abc import Iterator

from multidict import CIMultiDict, MultiMapping

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# An upstream that obeys one of these would do something else than what was classified and scanned.
_OVERRIDES = frozenset(
    {
        "x-envoy-original-path",
        "x-forwarded-path",
        "x-forwarded-uri",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-original-uri",
        "x-rewrite-url",
    }
)
# The client made these for its connection to us.
_OURS = frozenset({"host", "content-length", "expect"})
_NOT_UP = HOP_BY_HOP | _OVERRIDES | _OURS
OWN_PREFIX = "x-sidecar-"
KEY_PREFIX = "psk_"
KEY_HEADERS = ("X-API-Key", "Authorization", "Api-Key")
PROTOCOLS = "Sec-WebSocket-Protocol"
KEY_PROTOCOL = "openai-insecure-api-key."
"""How browsers hand over a key with a websocket: among the protocols that they speak."""
_CREDENTIALS = frozenset(name.lower() for name in (*KEY_HEADERS, PROTOCOLS))


def upward(received: MultiMapping[str], *, decoded: bool) -> CIMultiDict[str]:
    """The fields of a request that go up. `decoded`: the body goes up without its content coding.

    Neither the sidecar's own keys nor names that only the sidecar may set ever go up.
    """
    dropped = _NOT_UP | _named_in_connection(received)
    if decoded:
        dropped |= {"content-encoding"}
    return CIMultiDict(
        (name, value)
        for name, value in received.items()
        if (low := name.lower()) not in dropped
        and not low.startswith(OWN_PREFIX)
        and not (low in _CREDENTIALS and KEY_PREFIX in value)
    )


def downward(received: MultiMapping[str]) -> CIMultiDict[str]:
    """The fields of an answer that go down. Its length stays: the body passes as it is."""
    dropped = HOP_BY_HOP | _named_in_connection(received)
    return CIMultiDict(
        (name, value if value.isascii() else _readable(value))
        for name, value in received.items()
        if (low := name.lower()) not in dropped and not low.startswith(OWN_PREFIX)
    )


def _readable(value: str) -> str:
    """Bytes that are no UTF-8 are Latin-1, as they always were in header fields (RFC 9110, 5.5)."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape").decode("latin-1")
    return value


def own_key(received: MultiMapping[str]) -> str | None:
    """The sidecar's own key among the credentials of a request, if there is one."""
    return next((value for value in _credentials(received) if value.startswith(KEY_PREFIX)), None)


def is_websocket(received: MultiMapping[str]) -> bool:
    """Whether the client asks to change over to a socket, on which nothing could be scanned."""
    return "Upgrade" in received and any("websocket" in value.lower() for value in received.getall("Upgrade", ()))


def protocols(received: MultiMapping[str]) -> list[str]:
    """The protocols that a client speaks on a websocket."""
    return [name for value in received.getall(PROTOCOLS, ()) for part in value.split(",") if (name := part.strip())]


def _credentials(received: MultiMapping[str]) -> Iterator[str]:
    for name in KEY_HEADERS:
        if name not in received:
            continue
        yield from (_bare(value) for value in received.getall(name, ()))
    if PROTOCOLS in received:
        yield from (name.removeprefix(KEY_PROTOCOL) for name in protocols(received) if name.startswith(KEY_PROTOCOL))


def _bare(value: str) -> str:
    """The credential in a field: after the scheme, where there is one."""
    parts = value.split(maxsplit=1)
    return parts[1].strip() if len(parts) == 2 and parts[0].lower() == "bearer" else value.strip()


def _named_in_connection(received: MultiMapping[str]) -> frozenset[str]:
    if "Connection" not in received:
        return frozenset()
    tokens = (token.strip().lower() for value in received.getall("Connection", ()) for token in value.split(","))
    return frozenset(token for token in tokens if token)
