"""One connection between a client and a server: each message is scanned and passes unchanged, or is refused.

Nothing that is refused breaks the connection. A refused request is answered, a refused response is replaced by one that
says so, a refused notification is dropped. What is not refused passes byte for byte. Messages are scanned by the one
`ScanService`, like requests to the inline proxy, and each with texts gets a decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError, StoreError, Unavailable
from sidecar.extraction.extraction import Extraction
from sidecar.extraction.mcp_fields import METHODS
from sidecar.extraction.mcp_message import extract
from sidecar.mcp.catalogue import UNKNOWN_PAGE, Catalogue, Drift
from sidecar.mcp.messages import Message, Packet, Pending, Request, encode, find_id, is_request, is_response, parse
from sidecar.mcp.refusals import PARSE_ERROR, UNSCANNED, Refusal, answer, drift_refusal, place_of
from sidecar.scan.selection import Selector
from sidecar.scan.service import ScanContext, ScanOutcome, ScanService
from sidecar.server.body import run_off_loop
from sidecar.server.middleware import new_decision_id
from sidecar.server.reasons import refusal_message
from sidecar.types import Action, LayerName, ScanRequest, Segment, Verdict
from sidecar.util import logs

_log = logs.get("mcp")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What becomes of a message: `forward` goes to the receiver, `reply` back to the sender; None: nothing."""

    forward: bytes | None
    reply: bytes | None = None


@dataclass(frozen=True, slots=True)
class McpScanner:
    """What all sessions with one server share. `server`: its name in pins, logs and decisions."""

    settings: Settings
    scans: ScanService
    server: str
    catalogue: Catalogue | None = None
    """None: tools are not pinned."""


class Session:
    """The messages of one connection, in both directions."""

    def __init__(self, scanner: McpScanner) -> None:
        self._scanner, self._settings, self._scans = scanner, scanner.settings, scanner.scans
        self._selector = Selector(scanner.settings)
        self._pending = {True: Pending(), False: Pending()}
        """Requests that wait for a response, by whether the server sent them."""

    async def inspect(self, raw: bytes, context: ScanContext, *, from_server: bool, whole: bool = False) -> Inspection:
        """Scan the messages of one line, body or event. `context`: client and route; its decision id may be empty.

        `whole`: a batch passes or is refused as a whole, where all its answers have to come together.
        """
        try:
            packet = await run_off_loop(raw, partial(parse, raw, depth=self._settings.limits.depth))
        except BodyError as error:
            return self.unreadable(raw, error, context, from_server=from_server)
        return await self._packet(raw, packet, context, from_server=from_server, whole=whole)

    def unreadable(self, raw: bytes, error: BodyError, context: ScanContext, *, from_server: bool) -> Inspection:
        """What becomes of bytes that are no message (`failure.input`)."""
        if not self._allows(error.kind, context):
            return self.refuse_unread(raw, error, context, from_server=from_server)
        _log.warning("mcp_message_unscanned", server=self._scanner.server, cause=error.kind)
        return Inspection(raw)

    def refuse_unread(self, raw: bytes, error: BodyError, context: ScanContext, *, from_server: bool) -> Inspection:
        """Refuse bytes that were not read as a message; `raw`: all of them, or the beginning.

        The client gets an error, with the id of the request if that can be found.
        """
        _log.warning("mcp_message_dropped", server=self._scanner.server, cause=error.kind)
        decision = self._record_failure(context, error.kind)
        refusal = Refusal(f"{error.detail} Decision {decision}.", decision, PARSE_ERROR)
        message_id = find_id(raw)
        if not from_server:
            return Inspection(None, encode([answer(message_id, None, refusal)], is_batch=False))
        request = None if message_id is None else self._pending[False].take(message_id)
        if request is None:
            return Inspection(None)
        response = answer(message_id, request.method, replace(refusal, code=UNSCANNED))
        return Inspection(encode([response], is_batch=False))

    async def _packet(
        self, raw: bytes, packet: Packet, context: ScanContext, *, from_server: bool, whole: bool
    ) -> Inspection:
        requests = [self._request_of(message, from_server=from_server) for message in packet.messages]
        refusals = []
        for message, request in zip(packet.messages, requests, strict=True):
            refusals.append(await self._refusal(raw, message, request, context, from_server=from_server))
            context = replace(context, decision="")
        first = next((refusal for refusal in refusals if refusal is not None), None)
        if first is None:
            return Inspection(raw)
        forward, replies = [], []
        for message, request, own in zip(packet.messages, requests, refusals, strict=True):
            refusal = own or (first if whole else None)
            if refusal is None:
                forward.append(message)
                continue
            if is_request(message):
                self._pending[from_server].take(message["id"])
                replies.append(answer(message["id"], request.method if request else None, refusal))
            elif is_response(message):
                forward.append(answer(message["id"], request.method if request else None, refusal))
        return Inspection(encode(forward, is_batch=packet.is_batch), encode(replies, is_batch=packet.is_batch))

    def _request_of(self, message: Message, *, from_server: bool) -> Request | None:
        """The request that a message is, or answers."""
        if is_request(message):
            return self._pending[from_server].add(message)
        return self._pending[not from_server].take(message["id"]) if is_response(message) else None

    async def _refusal(
        self, raw: bytes, message: Message, request: Request | None, context: ScanContext, *, from_server: bool
    ) -> Refusal | None:
        """Why a message does not pass; None if it does. `raw`: the bytes that hold it."""
        method = request.method if request else str(message["method"]) if "method" in message else None
        context = replace(
            context,
            decision=context.decision or new_decision_id(),
            route=f"{context.route}/{method if method in METHODS else 'other'}",
        )
        try:
            self._scans.admit()
            read = partial(extract, message, from_server=from_server, method=method)
            extraction = await run_off_loop(raw, read)
            refusal = await self._scan(extraction, message, request, method, context, from_server=from_server)
        except RequestError as error:
            refusal = self._failure(error, context)
        if refusal is None and not self._scans.monitors(context.key):
            refusal = await self._drift_of_call(request, message, context, from_server=from_server)
        if refusal is None and from_server and method in {"tools/list", None}:  # None: an answer to no known request
            refusal = await self._pin(message.get("result"), request, context)
        return refusal

    async def _scan(
        self,
        extraction: Extraction,
        message: Message,
        request: Request | None,
        method: str | None,
        context: ScanContext,
        *,
        from_server: bool,
    ) -> Refusal | None:
        scan_input = self._selector.select(extraction)
        kinds = tuple(dict.fromkeys(part.kind for part in extraction.unscannable))
        if not scan_input.request.segments and not kinds:
            return None
        monitored = self._scans.monitors(context.key)
        closed = next((kind for kind in kinds if getattr(self._settings.failure.input, kind) == "block"), None)
        if closed and not monitored:
            raise BodyError(closed, f"The message holds what cannot be scanned (failure.input.{closed}).")
        tools = dict.fromkeys(("content", "structuredContent"), request.tool) if request and request.tool else {}
        scan_request = replace(scan_input.request, tools=tools)
        verdict = await self._scans.scan(scan_request, context)
        outcome = self._scans.decide(verdict, (*kinds, *scan_input.unscanned), monitored=monitored, closed=closed)
        self._record(context, outcome, scan_request)
        if not outcome.blocked:
            return None
        if outcome.failure:
            return Refusal(
                f"The message could not be scanned ({outcome.failure}); decision {context.decision}.",
                context.decision,
                UNSCANNED,
            )
        place = place_of(verdict.path, message, method, request, from_server=from_server)
        text = refusal_message(self._settings.block.message, verdict, context.decision, place=place)
        return Refusal(text, context.decision, verdict=verdict)

    def _record(self, context: ScanContext, outcome: ScanOutcome, request: ScanRequest) -> None:
        segments: tuple[Segment, ...] = tuple(segment for segment in request.segments if not segment.joined)
        self._scans.record(context, outcome, 200, segments, tools=request.tools)

    def _failure(self, error: RequestError, context: ScanContext) -> Refusal | None:
        """The refusal of a message that cannot be scanned, unless the policy lets it pass."""
        kind = error.kind if isinstance(error, BodyError) else error.code
        if isinstance(error, BodyError) and self._allows(kind, context):
            return None
        self._record_failure(context, kind)
        return Refusal(f"{error.detail} Decision {context.decision}.", context.decision, UNSCANNED)

    def _allows(self, kind: str, context: ScanContext) -> bool:
        allowed = getattr(self._settings.failure.input, kind, "block") == "allow"
        return allowed or self._scans.monitors(context.key)

    def _record_failure(self, context: ScanContext, cause: str) -> str:
        """Record a refusal without a scan; returns the id of the decision."""
        context = replace(context, decision=context.decision or new_decision_id())
        verdict = Verdict(0.0, Action.BLOCK, (), 0, LayerName.RULES, failure=cause)
        self._scans.record(context, ScanOutcome(verdict, "block"), 200)
        return context.decision

    async def _pin(self, result: object, request: Request | None, context: ScanContext) -> Refusal | None:
        """Compare a list of tools with its pins; a refusal if it drifted and the settings say so."""
        catalogue, server = self._scanner.catalogue, self._scanner.server
        if catalogue is None or not isinstance(result, dict) or "tools" not in result:
            return None
        try:
            drift = await catalogue.observe(server, result, request.cursor if request else UNKNOWN_PAGE)
        except StoreError as error:
            return self._pins_unavailable(error, context)
        dangerous = [one for one in drift if one.is_dangerous]
        if not dangerous or self._settings.mcp.drift != "block" or self._scans.monitors(context.key):
            return None
        return self._drift_refusal(dangerous, context)

    async def _drift_of_call(
        self, request: Request | None, message: Message, context: ScanContext, *, from_server: bool
    ) -> Refusal | None:
        """A refusal of a call to a tool that drifted, where the settings say so."""
        if self._settings.mcp.drift != "block" or self._scanner.catalogue is None or from_server:
            return None
        if request is None or request.method != "tools/call" or not is_request(message):
            return None
        try:
            drift = await self._scanner.catalogue.drift_of(self._scanner.server, request.tool)
        except StoreError as error:
            return self._pins_unavailable(error, context)
        return self._drift_refusal([drift], context) if drift is not None and drift.is_dangerous else None

    def _pins_unavailable(self, error: StoreError, context: ScanContext) -> Refusal | None:
        _log.warning("mcp_pins_unavailable", server=self._scanner.server, error=error)
        if self._settings.mcp.drift != "block":
            return None
        unavailable = Unavailable("The pinned tools cannot be read (mcp.drift).")
        return self._failure(unavailable, replace(context, decision=new_decision_id()))

    def _drift_refusal(self, drift: list[Drift], context: ScanContext) -> Refusal:
        # The message was scanned and allowed under its own id.
        decision = self._record_failure(replace(context, decision=""), "drift")
        return drift_refusal(drift, self._scanner.server, decision)
