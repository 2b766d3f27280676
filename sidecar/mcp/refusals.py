"""Refusals: why a message does not pass, and the response in its place.

A refused call of a tool gets a result with `isError`, which the model reads; every other request gets an error in the
range that JSON-RPC leaves to implementations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.extraction.mcp_fields import METHODS
from sidecar.mcp.catalogue import MAX_SHOWN, Drift
from sidecar.mcp.messages import Message, Request, is_response
from sidecar.server.reasons import describe_path
from sidecar.types import Verdict

REFUSED, UNSCANNED, PARSE_ERROR = -32010, -32011, -32700
"""Codes of errors: the scan refused it; it could not be scanned; it is not JSON."""
META = "prompt-sidecar/decision"
"""The name of the decision in the `_meta` of a refused result."""
MAX_NAMED = 5
"""Tools that a refusal for drift names."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a message does not pass. `text` is for the model and its user; it quotes nothing but names of tools."""

    text: str
    decision: str
    code: int = REFUSED
    verdict: Verdict | None = None
    """Of a message that was scanned."""

    @property
    def facts(self) -> Message:
        """The decision in fields."""
        facts: Message = {"decision": self.decision}
        if self.verdict is not None:
            facts |= {
                "path": self.verdict.path,
                "risk_score": self.verdict.risk_score,
                "threats": list(self.verdict.threats),
                "layer_used": self.verdict.layer_used,
            }
        return facts


def answer(message_id: object, method: str | None, refusal: Refusal) -> Message:
    """The response in place of a refused request or response."""
    head: Message = {"jsonrpc": "2.0", "id": message_id}
    if method == "tools/call":
        content = [{"type": "text", "text": refusal.text}]
        result = {"content": content, "isError": True, "resultType": "complete", "_meta": {META: refusal.facts}}
        return head | {"result": result}
    return head | {"error": {"code": refusal.code, "message": refusal.text, "data": {"sidecar": refusal.facts}}}


def drift_refusal(drift: Sequence[Drift], server: str, decision: str) -> Refusal:
    """The refusal of tools that are not as they were pinned."""
    names = ", ".join(f"{_quoted(change.tool).strip() or 'a tool'} was {change.kind}" for change in drift[:MAX_NAMED])
    more = f" and {len(drift) - MAX_NAMED} more" if len(drift) > MAX_NAMED else ""
    text = (
        f"The tools of the server {server} are not those that were pinned (mcp.drift): {names}{more}. "
        f"`sidecar mcp pins accept` accepts them; decision {decision}."
    )
    return Refusal(text, decision)


def place_of(
    path: str | None, message: Message, method: str | None, request: Request | None, *, from_server: bool
) -> str:
    """The place of a finding in words, followed by its path."""
    part = next((value for name in ("params", "result") if isinstance(value := message.get(name), dict)), {})
    if path is not None and path.partition(".")[0] == "tools":
        return describe_path(path, part)
    suffix = f" ({path})" if path else ""
    if method == "tools/call" and request is not None:
        return f"{'the result of' if from_server else 'an argument of'} tool{_quoted(request.tool)}{suffix}"
    subject = "answer" if is_response(message) else "message"
    sender, purpose = "server" if from_server else "client", method if method in METHODS else "a request"
    return f"the {subject} of the {sender} to {purpose}{suffix}"


def _quoted(name: str) -> str:
    """The name of a tool in backticks; empty if it does not have the form of a name."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").replace(".", "").replace("/", "").isalnum()
    return f" `{name}`" if plain and len(name) <= MAX_SHOWN else ""
