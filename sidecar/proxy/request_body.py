"""Reads the body of a request to the inline proxy: the content to forward, and the texts in it.

Reads the body once, by the kind of its route, and applies `failure.input` to content that cannot be scanned: refused,
or forwarded and named in `unscanned`. Under `mode: monitor` all of it is forwarded. An incomplete body is never
forwarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace

from aiohttp import web

from sidecar.attachments.reader import NO_ATTACHMENTS, AttachmentReader
from sidecar.config import Settings
from sidecar.errors import BodyError, RouteNotAllowed, Unavailable, UpgradeRefused
from sidecar.extraction import extraction, forms, json_body, socket_events
from sidecar.extraction.dialect_fields import fields_of
from sidecar.extraction.extraction import NO_TEXTS, Extraction, Unscannable
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.query import extract_query
from sidecar.extraction.routes import Route
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.limits import OverBudget
from sidecar.protocols import PROTOCOLS, RouteKind
from sidecar.server.body import (
    RESERVATION,
    Oversize,
    content_coding,
    decode_body,
    read_body,
    reserve_parsing,
    run_off_loop,
)
from sidecar.server.headers import is_websocket
from sidecar.server.middleware import HINT
from sidecar.util import json

_STORED_PROMPT = Unscannable("reference", "modelId")
_FORMS = frozenset({RouteKind.MULTIPART, RouteKind.FILES})


@dataclass(slots=True, eq=False)
class RequestBody:
    """A body to forward, and the texts in it.

    `document`: the parsed JSON, if it is JSON and still needed. `decoded`: `content` differs from the bytes that the
    client sent, which may have had a content coding. `unscanned`: kinds of unscanned content that is forwarded, named
    as in `failure`.
    """

    content: bytes | AsyncIterator[bytes]
    texts: Extraction = NO_TEXTS
    document: JsonValue = None
    decoded: bool = False
    unscanned: tuple[str, ...] = ()


EMPTY = RequestBody(b"")


class RequestReader:
    """Reads requests under given settings."""

    def __init__(
        self,
        settings: Settings,
        vocabularies: Vocabularies = NO_VOCABULARIES,
        attachments: AttachmentReader = NO_ATTACHMENTS,
    ) -> None:
        self._vocabularies, self._attachments = vocabularies, attachments
        self._limits = settings.limits
        self._inline = settings.inline
        self._failure = settings.failure
        self._monitor = settings.mode == "monitor"

    async def read(self, request: web.Request, route: Route) -> RequestBody:
        """The body. Raises `RouteNotAllowed` or `BodyError` if refused, `Unavailable` if over the memory budget."""
        cause = self._admit_route(request, route)
        try:
            content = await self._read_content(request)
            if cause is None and isinstance(content, bytes):
                return await self._parse(request, route, content)
        except OverBudget:
            raise Unavailable("The scanner is busy.", retry_after=1) from None
        return RequestBody(content, unscanned=(cause or "oversize",))

    def read_query(self, request: web.Request) -> RequestBody:
        """The texts of the query, as of a body without content. Raises `BodyError` if refused."""
        try:
            return RequestBody(b"", extract_query(request.raw_path.partition("?")[2]))
        except BodyError as error:
            if not self.is_allowed(error.kind):
                raise
            return RequestBody(b"", unscanned=(error.kind,))

    async def rewrite(self, request: web.Request, route: Route, body: RequestBody, document: JsonValue) -> RequestBody:
        """The body with this document, which must not be larger, instead of the client's. Its files are read again."""
        room = json.memory_for(body.content) if isinstance(body.content, bytes) else json.LARGE
        return await self._resolve(
            request, route, self._read_document(route, json.dumps(document, room), document, decoded=True)
        )

    async def read_event(
        self, request: web.Request, route: Route, message: str | bytes, model: str | None
    ) -> RequestBody:
        """A message of a websocket that was opened for this model.

        Raises `BodyError` if refused, `Unavailable` if over the memory budget.
        """
        raw = message if isinstance(message, bytes) else message.encode("utf-8", "surrogatepass")
        try:
            await reserve_parsing(request, raw)
            body = await run_off_loop(raw, self._read_event, message, raw, model)
            return await self._resolve(request, route, body)
        except OverBudget:
            raise Unavailable("The scanner is busy.", retry_after=1) from None
        except BodyError as error:
            if not self.is_allowed(error.kind):
                raise
            return RequestBody(raw, unscanned=(error.kind,))

    def _read_event(self, message: str | bytes, raw: bytes, model: str | None) -> RequestBody:
        if isinstance(message, bytes):
            raise BodyError("encoding", "Binary messages cannot be scanned.", status=415)
        document = json_body.parse(raw, depth=self._limits.depth)
        texts = socket_events.extract_event(document, depth=self._limits.depth)
        if model and texts.model and texts.model != model:
            raise BodyError("malformed", "The event names another model than the websocket was opened for.")
        return RequestBody(raw, replace(texts, model=texts.model or model), document)

    def is_allowed(self, kind: str) -> bool:
        """Whether a body with unscannable content of this `kind` is forwarded anyway."""
        return self._monitor or getattr(self._failure.input, kind, "block") == "allow"

    def first_blocked(self, kinds: Iterable[str]) -> str | None:
        """The first of these kinds that would be refused under `mode: enforce`."""
        is_blocked = {"unknown_route": self._failure.unknown_route == "block", "files": self._inline.files == "deny"}
        return next(
            (kind for kind in kinds if is_blocked.get(kind, getattr(self._failure.input, kind, "allow") == "block")),
            None,
        )

    def _admit_route(self, request: web.Request, route: Route) -> str | None:
        """Refuse by route alone; returns the cause if the body is forwarded unscanned, else None."""
        if route.kind is RouteKind.WEBSOCKET or is_websocket(request.headers):
            raise UpgradeRefused("Websockets are not served (inline.websockets): use plain HTTP.")
        if route.kind is RouteKind.UNKNOWN:
            if self._failure.unknown_route == "block" and not self._monitor:
                raise RouteNotAllowed(
                    f"This method and path are not served (inline.routes, failure.unknown_route). {HINT}"
                )
            return "unknown_route"
        if route.kind is RouteKind.FILES and self._inline.files != "scan_jsonl":
            if self._inline.files == "deny" and not self._monitor:
                raise RouteNotAllowed("Files are not accepted (inline.files).")
            return "files"
        return None

    async def _read_content(self, request: web.Request) -> bytes | AsyncIterator[bytes]:
        """The bytes of the body; a stream if it is larger than the limit and the policy allows that."""
        try:
            return await read_body(request, self._limits)
        except Oversize as error:
            if not self.is_allowed("oversize"):
                raise
            return self._stream_all(error.head, request)

    async def _stream_all(self, head: list[bytes], request: web.Request) -> AsyncIterator[bytes]:
        """The part that was already read, then the rest as it arrives."""
        for chunk in head:
            yield chunk
        while not request.content.at_eof():
            async with asyncio.timeout(self._limits.body_timeout):
                chunk = await request.content.readany()
            if chunk:
                yield chunk

    async def _parse(self, request: web.Request, route: Route, raw: bytes) -> RequestBody:
        """Parse a body. If its kind of failure is allowed, it is forwarded as sent."""
        try:
            if route.kind is RouteKind.PASS:
                return _require_empty(raw)
            content_type = _single_header(request, "Content-Type")
            if content_type is None and PROTOCOLS[route.dialect].signed:
                content_type = "application/json"  # which Amazon takes it for
            if route.kind in _FORMS and forms.is_form(content_type):
                await reserve_parsing(request, raw)
                body = await run_off_loop(raw, self._read_form, request, route, raw, content_type)
                return await self._resolve(request, route, body)
            decoded_content = await decode_body(request, raw, content_type, self._limits)
            is_decoded = decoded_content is not raw
            body = await run_off_loop(decoded_content, self._read_json, route, decoded_content, is_decoded)
            return await self._resolve(request, route, body)
        except BodyError as error:
            if not self.is_allowed(error.kind):
                raise
            return RequestBody(raw, unscanned=(error.kind,))

    def _read_json(self, route: Route, decoded_content: bytes, decoded: bool) -> RequestBody:
        if decoded and PROTOCOLS[route.dialect].signed:
            raise BodyError("encoding", "A signed body must be sent without Content-Encoding.", status=415)
        document = json_body.parse(decoded_content, depth=self._limits.depth, fields=fields_of(route.dialect))
        return self._read_document(route, decoded_content, document, decoded=decoded)

    def _read_document(
        self, route: Route, decoded_content: bytes, document: JsonValue, *, decoded: bool
    ) -> RequestBody:
        texts = extraction.extract(document, route.operation, route.dialect)
        return RequestBody(decoded_content, texts, document, decoded)

    def _read_form(self, request: web.Request, route: Route, raw: bytes, content_type: str | None) -> RequestBody:
        parts = forms.parse_form(raw, content_type=content_type, content_encoding=content_coding(request))
        read = forms.extract_upload if route.kind is RouteKind.FILES else forms.extract_form
        return RequestBody(raw, read(parts, depth=self._limits.depth))

    async def _resolve(self, request: web.Request, route: Route, body: RequestBody) -> RequestBody:
        """Read what needs more than parsing: files and token ids. Refuse what is then unscannable, or name it."""
        if not body.texts.unscannable and not route.deployment:
            return body
        texts = await self._attachments.read(body.texts, request[RESERVATION].client)
        content = body.content if isinstance(body.content, bytes) else b""
        return await run_off_loop(content, self._check_unscannable, route, replace(body, texts=texts))

    def _check_unscannable(self, route: Route, body: RequestBody) -> RequestBody:
        """Refuse unscannable parts, or name them in `unscanned`."""
        texts = body.texts
        if model := route.deployment:
            ids = tuple(replace(part, model=model) for part in texts.unscannable)
            stored = PROTOCOLS[route.dialect].stored_prompt
            is_stored = stored is not None and stored.search(model)
            texts = replace(texts, model=model, unscannable=(*ids, *([_STORED_PROMPT] if is_stored else ())))
        texts = self._vocabularies.decode_prompts(texts)
        parts = texts.unscannable
        for part in parts:
            if not self.is_allowed(part.kind):
                message = f"The body holds what cannot be scanned (failure.input.{part.kind})."
                raise BodyError(part.kind, message, status=422, param=part.path)
        return replace(body, texts=texts, unscanned=tuple(dict.fromkeys(part.kind for part in parts)))


def _require_empty(raw: bytes) -> RequestBody:
    """Raise `BodyError` unless the body is empty, or `{}` as some libraries send it."""
    if raw.strip() not in {b"", b"{}"}:
        raise BodyError("malformed", "This method and path take no body.")
    return RequestBody(raw)


def _single_header(request: web.Request, name: str) -> str | None:
    """The value of a header that must be unique: two servers could use different ones of several."""
    values = request.headers.getall(name, [])
    if len(values) > 1:
        raise BodyError("encoding", f"{name} is given more than once.", status=415)
    return values[0] if values else None
