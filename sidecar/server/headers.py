"""Which header fields are forwarded to the upstream and to the client. Fields not named here pass unchanged."""

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
# An upstream that honours one of these would perform another request than the one classified and scanned.
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
# These apply only to the client's connection to the sidecar.
_OURS = frozenset({"host", "content-length", "expect"})
_NOT_UP = HOP_BY_HOP | _OVERRIDES | _OURS
OWN_PREFIX = "x-sidecar-"
KEY_PREFIX = "psk_"
KEY_HEADERS = ("X-API-Key", "Authorization", "Api-Key", "X-Goog-Api-Key")
PROTOCOLS = "Sec-WebSocket-Protocol"
KEY_PROTOCOL = "openai-insecure-api-key."
"""Browsers send a key for a websocket as one of its subprotocols, with this prefix."""
_CREDENTIALS = frozenset(name.lower() for name in (*KEY_HEADERS, PROTOCOLS))


def upstream_headers(received: MultiMapping[str], *, decoded: bool, reserved: str = OWN_PREFIX) -> CIMultiDict[str]:
    """The request fields to send to the upstream. `decoded`: the body is sent without its content coding.

    The sidecar's own keys and fields reserved for the sidecar are never forwarded, nor is the field called `reserved`.
    """
    dropped = _NOT_UP | {reserved.lower()}
    if "Connection" in received:
        dropped |= _named_in_connection(received)
    if decoded:
        dropped |= {"content-encoding"}
    headers = CIMultiDict[str]()
    for name, value in received.items():
        low = name.lower()
        if low not in dropped and not low.startswith(OWN_PREFIX) and not (low in _CREDENTIALS and KEY_PREFIX in value):
            headers.add(name, value)
    return headers


def client_headers(received: MultiMapping[str]) -> CIMultiDict[str]:
    """The response fields to send to the client. The content length is kept: the body passes unchanged."""
    dropped = HOP_BY_HOP
    if "Connection" in received:
        dropped |= _named_in_connection(received)
    headers = CIMultiDict[str]()
    for name, value in received.items():
        low = name.lower()
        if low not in dropped and not low.startswith(OWN_PREFIX):
            headers.add(name, value if value.isascii() else _readable(value))
    return headers


def _readable(value: str) -> str:
    """Decode bytes that are not UTF-8 as Latin-1, the traditional charset of header fields (RFC 9110, 5.5)."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape").decode("latin-1")
    return value


def sidecar_key(received: MultiMapping[str]) -> str | None:
    """The sidecar key among the credentials of a request, if any."""
    for value in _credentials(received):
        if value.startswith(KEY_PREFIX):
            return value
    return None


def scan_key(received: MultiMapping[str]) -> str | None:
    """The key of a request to the scan API: `X-API-Key`, which decides where it is sent, else a bearer token."""
    if "X-API-Key" in received:
        return received["X-API-Key"]
    scheme, _, value = received.get("Authorization", "").strip().partition(" ")
    return value.strip() if scheme.lower() == "bearer" else None


def is_websocket(received: MultiMapping[str]) -> bool:
    """Whether the client requests an upgrade to a websocket."""
    return "Upgrade" in received and any("websocket" in value.lower() for value in received.getall("Upgrade", ()))


def protocols(received: MultiMapping[str]) -> list[str]:
    """The subprotocols that a client offers for a websocket."""
    return [name for value in received.getall(PROTOCOLS, ()) for part in value.split(",") if (name := part.strip())]


def _credentials(received: MultiMapping[str]) -> Iterator[str]:
    for name in KEY_HEADERS:
        if name not in received:
            continue
        yield from (_bare(value) for value in received.getall(name, ()))
    if PROTOCOLS in received:
        yield from (name.removeprefix(KEY_PROTOCOL) for name in protocols(received) if name.startswith(KEY_PROTOCOL))


def _bare(value: str) -> str:
    """The credential in a field, without the scheme, if any."""
    parts = value.split(maxsplit=1)
    return parts[1].strip() if len(parts) == 2 and parts[0].lower() == "bearer" else value.strip()


def _named_in_connection(received: MultiMapping[str]) -> frozenset[str]:
    tokens = (token.strip().lower() for value in received.getall("Connection", ()) for token in value.split(","))
    return frozenset(token for token in tokens if token)
