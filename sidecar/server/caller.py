"""The scan context of an HTTP request: its decision id, and the key that the gatekeeper found valid."""

from __future__ import annotations

from aiohttp import web

from sidecar.auth.api_keys import ApiKey
from sidecar.scan.service import ScanContext
from sidecar.server.responses import DECISION_ID

API_KEY = web.RequestKey("api_key", ApiKey)
"""Set by the gatekeeper after validating the key."""


def scan_context(request: web.Request, entrypoint: str) -> ScanContext:
    """Who asks, and where. Read it after the request was admitted."""
    return ScanContext(request[DECISION_ID], entrypoint, request.path, request.get(API_KEY))
