"""What a request of the inline door holds: its body as it will go up, and the texts in it.

Reads the body once, by the kind of its route, and applies `failure.input` to what cannot be scanned:
refused, or forwarded and named in `unscanned`. Under `mode: monitor` every such line is open. A body
that did not arrive whole is never forwarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace

from aiohttp import web

from sidecar.config import Settings
from sidecar.errors import BodyError, RouteNotAllowed, Unavailable, UpgradeRefused
from sidecar.extraction import extraction, forms, json_body, socket_events
from sidecar.extraction.extraction import Extraction
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.routes import Route, RouteKind
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.limits import OverBudget
from sidecar.server.body import THREAD_BYTES, Oversize, content_coding, decode_body, read_body, reserve_parsing
from sidecar.server.headers import is_websocket
from sidecar.util import json

_FORMS = frozenset({RouteKind.MULTIPART, RouteKind.FILES})


@dataclass(frozen=True, slots=True)
class Payload:
    """A body to forward. `texts` is None when nothing in it was or can be scanned.

    `document`: the body as JSON, if it is. `decoded`: the body is not the bytes that were sent, which may
    have had a content coding. `unscanned`: what goes up unseen, in the words of `failure`.
    """

    body: bytes | AsyncIterator[bytes]
    texts: Extraction | None = None
    document: JsonValue = None
    decoded: bool = False
    unscanned: tuple[str, ...] = ()


EMPTY = Payload(b"")


class Intake:
    """Reads requests under given settings."""

    def __init__(self, settings: Settings, vocabularies: Vocabularies = NO_VOCABULARIES) -> None:
        self._vocabularies = vocabularies
        self._limits = settings.limits
        self._inline = settings.inline
        self._failure = settings.failure
        self._monitor = settings.mode == "monitor"

    async def read(self, request: web.Request, route: Route) -> Payload:
        """The payload. Raises `RouteNotAllowed` or `BodyError` for what is refused, `Unavailable` for want of room."""
        cause = self._admit_route(request, route)
        try:
            body = await self._receive(request)
            if cause is None and isinstance(body, bytes):
                return await self._open(request, route, body)
        except OverBudget:
            raise Unavailable("The scanner is busy.", retry_after=1) from None
        return Payload(body, unscanned=(cause or "oversize",))

    def rewrite(self, route: Route, payload: Payload, document: JsonValue) -> Payload:
        """The payload with this document, no larger than its own, in place of what the client sent."""
        room = json.memory_for(payload.body) if isinstance(payload.body, bytes) else json.LARGE
        return self._read_document(route, json.dumps(document, room), document, decoded=True)

    async def read_event(self, request: web.Request, route: Route, message: str | bytes, model: str | None) -> Payload:
        """A message of a websocket that was opened for this model.

        Raises `BodyError` for what is refused, `Unavailable` for want of room.
        """
        raw = message if isinstance(message, bytes) else message.encode("utf-8", "surrogatepass")
        try:
            await reserve_parsing(request, raw)
            return await _aside(len(raw), self._read_event, route, message, raw, model)
        except OverBudget:
            raise Unavailable("The scanner is busy.", retry_after=1) from None
        except BodyError as error:
            if not self.opens(error.kind):
                raise
            return Payload(raw, unscanned=(error.kind,))

    def _read_event(self, route: Route, message: str | bytes, raw: bytes, model: str | None) -> Payload:
        if isinstance(message, bytes):
            raise BodyError("encoding", "Binary messages cannot be scanned.", status=415)
        document = json_body.parse(raw, depth=self._limits.depth)
        texts = socket_events.extract_event(document, depth=self._limits.depth)
        if model and texts.model and texts.model != model:
            raise BodyError("malformed", "The event names another model than the websocket was opened for.")
        return self._checked(route, Payload(raw, replace(texts, model=texts.model or model), document))

    def opens(self, kind: str) -> bool:
        """Whether a body of which `kind` cannot be scanned goes up all the same."""
        return self._monitor or getattr(self._failure.input, kind, "block") == "allow"

    def closed(self, kinds: Iterable[str]) -> str | None:
        """The first of these kinds that would be refused if nothing were monitored."""
        shut = {"unknown_route": self._failure.unknown_route == "block", "files": self._inline.files == "deny"}
        return next((k for k in kinds if shut.get(k, getattr(self._failure.input, k, "allow") == "block")), None)

    def _admit_route(self, request: web.Request, route: Route) -> str | None:
        """Refuse what policy refuses by its route alone; the cause if it goes up unscanned, else None."""
        if route.kind is RouteKind.WEBSOCKET or is_websocket(request.headers):
            raise UpgradeRefused("Websockets are not served (inline.websockets): use plain HTTP.")
        if route.kind is RouteKind.UNKNOWN:
            if self._failure.unknown_route == "block" and not self._monitor:
                raise RouteNotAllowed("This method and path are not served (inline.routes, failure.unknown_route).")
            return "unknown_route"
        if route.kind is RouteKind.FILES and self._inline.files != "scan_jsonl":
            if self._inline.files == "deny" and not self._monitor:
                raise RouteNotAllowed("Files are not accepted (inline.files).")
            return "files"
        return None

    async def _receive(self, request: web.Request) -> bytes | AsyncIterator[bytes]:
        """The body; one that is larger than the limit, if policy lets it through, as it arrives."""
        try:
            return await read_body(request, self._limits)
        except Oversize as error:
            if not self.opens("oversize"):
                raise
            return self._whole(error.head, request)

    async def _whole(self, head: list[bytes], request: web.Request) -> AsyncIterator[bytes]:
        """What was read of a body, and then the rest as it arrives."""
        for chunk in head:
            yield chunk
        while not request.content.at_eof():
            async with asyncio.timeout(self._limits.body_timeout):
                chunk = await request.content.readany()
            if chunk:
                yield chunk

    async def _open(self, request: web.Request, route: Route, raw: bytes) -> Payload:
        """Look into a body. A kind that the policy opens goes up as it was sent."""
        try:
            if route.kind is RouteKind.PASS:
                return _without_body(raw)
            content_type = _only(request, "Content-Type")
            if route.kind in _FORMS and forms.is_form(content_type):
                await reserve_parsing(request, raw)
                return await _aside(len(raw), self._read_form, request, route, raw, content_type)
            plain = await decode_body(request, raw, content_type, self._limits)
            return await _aside(len(plain), self._read_json, route, plain, plain is not raw)
        except BodyError as error:
            if not self.opens(error.kind):
                raise
            return Payload(raw, unscanned=(error.kind,))

    def _read_json(self, route: Route, plain: bytes, decoded: bool) -> Payload:
        return self._read_document(route, plain, json_body.parse(plain, depth=self._limits.depth), decoded=decoded)

    def _read_document(self, route: Route, plain: bytes, document: JsonValue, *, decoded: bool) -> Payload:
        texts = extraction.extract(document, route.operation, route.dialect)
        return self._checked(route, Payload(plain, texts, document, decoded))

    def _read_form(self, request: web.Request, route: Route, raw: bytes, content_type: str | None) -> Payload:
        parts = forms.parse_form(raw, content_type=content_type, content_encoding=content_coding(request))
        read = forms.extract_upload if route.kind is RouteKind.FILES else forms.extract_form
        return self._checked(route, Payload(raw, read(parts, depth=self._limits.depth)))

    def _checked(self, route: Route, payload: Payload) -> Payload:
        """Refuse or name the parts that hold no text to scan."""
        texts = payload.texts
        if texts and (model := route.deployment):
            ids = tuple(replace(part, model=model) for part in texts.unscannable)
            texts = replace(texts, model=model, unscannable=ids)
        texts = self._vocabularies.decode_prompts(texts) if texts else None
        parts = texts.unscannable if texts else ()
        for part in parts:
            if not self.opens(part.kind):
                said = f"The body holds what cannot be scanned (failure.input.{part.kind})."
                raise BodyError(part.kind, said, status=422, param=part.path)
        if not parts and texts is payload.texts:
            return payload
        return replace(payload, texts=texts, unscanned=tuple(dict.fromkeys(part.kind for part in parts)))


async def _aside(size: int, read: Callable[..., Payload], *given: object) -> Payload:
    """Read what has so many bytes: in a thread, if it would hold up the event loop."""
    return await asyncio.to_thread(read, *given) if size > THREAD_BYTES else read(*given)


def _without_body(raw: bytes) -> Payload:
    """Some libraries send an empty object where there is no body."""
    if raw.strip() not in {b"", b"{}"}:
        raise BodyError("malformed", "This method and path take no body.")
    return Payload(raw)


def _only(request: web.Request, name: str) -> str | None:
    """The one value of a field: two servers could believe different ones of several."""
    values = request.headers.getall(name, [])
    if len(values) > 1:
        raise BodyError("encoding", f"{name} is given more than once.", status=415)
    return values[0] if values else None
