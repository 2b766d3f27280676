"""The receipt of a decision in a header of its response (`audit.receipts`)."""

from __future__ import annotations

from aiohttp import web

from sidecar.decision_log.receipts import HEADER

RECEIPT = web.RequestKey("receipt", str)
"""Set where the decision about a request is recorded."""


async def add_receipt(request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: add the header, if there is a receipt."""
    if RECEIPT in request:
        response.headers[HEADER] = request[RECEIPT]
