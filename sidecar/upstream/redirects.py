"""Redirects of the upstream: none may lead a client's request past the sidecar.

A redirect within the upstream's origin is rewritten to the path on the sidecar. One to another origin passes if clients
follow it without the request body (files are often served so); if they repeat the body (307, 308), it is rejected.
"""

from __future__ import annotations

from yarl import URL

from sidecar.errors import UpstreamError

BODY_PRESERVING = frozenset({307, 308})
REDIRECTS = frozenset({301, 302, 303, *BODY_PRESERVING})


def rewrite_location(status: int, value: str, *, request_url: URL, base_path: str, bodiless: bool) -> str:
    """The `Location` for the client. `base_path` is the path of `upstream.url`.

    Raises `UpstreamError` (502) where a client would send its body to another origin.
    """
    try:
        target = request_url.join(URL(value, encoded=True))
        origin = (request_url.scheme, request_url.host, request_url.port)
        same_origin = (target.scheme, target.host, target.port) == origin
    except (ValueError, IndexError):  # yarl raises these for invalid URLs
        target, same_origin = None, False
    if target is not None and same_origin:
        path = target.raw_path_qs
        path = path.removeprefix(base_path) if path.startswith(f"{base_path}/") else path
        return "/" + path.lstrip("/\\")  # two leading slashes would name another host
    if status in BODY_PRESERVING and not bodiless:
        raise UpstreamError("The upstream redirects to another host, which upstream.url would have to name.")
    return value
