"""Synthetic completions for `block.style: refusal`: a regular response of the API, complete or as a stream.

For clients that cannot handle an error: status 200, a short text, and a finish reason that states the cause.
"""

from __future__ import annotations

from aiohttp import web

from sidecar.protocols import protocol_of
from sidecar.util import json


def refusal(operation: str, text: str, *, decision_id: str, model: str, stream: bool) -> web.Response | None:
    """The refusal in the response format of `operation`, None if its responses are not text."""
    make = protocol_of(operation).refusals.get(operation)
    if make is None:
        return None
    made = make(text, decision_id.removeprefix("dec_"), model)
    if not stream:
        return web.Response(body=json.dumps(made.body), content_type="application/json")
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    return web.Response(body=b"".join(made.events), headers=headers)
