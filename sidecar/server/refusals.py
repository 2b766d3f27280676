"""Synthetic completions for `block.style: refusal`: a regular response of the API, complete or as a stream.

For clients that cannot handle an error: status 200, a short text, and a finish reason that states the cause.
"""

from __future__ import annotations

from aiohttp import web

from sidecar.protocols import protocol_of
from sidecar.util import json


def refusal(
    operation: str, text: str, *, decision_id: str, model: str, stream: bool, events: bool = True
) -> web.Response | None:
    """The refusal in the response format of `operation`, None if its responses are not text.

    `events`: a stream is one of events; else it is a JSON list.
    """
    served = protocol_of(operation)
    make = served.refusals.get(operation)
    if make is None:
        return None
    made = make(text, decision_id.removeprefix("dec_"), model)
    if not stream or not events:
        body = [made.body] if stream else made.body
        return web.Response(body=json.dumps(body), content_type="application/json")
    headers = {"Content-Type": served.stream_type, "Cache-Control": "no-cache"}
    return web.Response(body=b"".join(made.events), headers=headers)
