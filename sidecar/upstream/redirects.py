"""Redirects of the upstream: none may lead a client's request past the sidecar.

A redirect within the upstream's own origin is rewritten to the path on the sidecar. One to another origin passes if
clients follow it without the body of their request (files are often served so); if they repeat the body (307, 308),
it is refused.
"""

from __future__ import annotations

from yarl import URL

from sidecar.errors import UpstreamError

REPEATING = frozenset({307, 308})
FOLLOWED = frozenset({301, 302, 303, *REPEATING})


def location(status: int, value: str, *, at: URL, base: str, bodiless: bool) -> str:
    """The `Location` for the client. `at`: what was asked of the upstream; `base`: the path of `upstream.url`.

    Raises `UpstreamError` (502) where a client would send its body to another origin.
    """
    try:
        there = at.join(URL(value, encoded=True))
        same = (there.scheme, there.host, there.port) == (at.scheme, at.host, at.port)
    except (ValueError, IndexError):  # yarl's, for what is no address
        there, same = None, False
    if there is not None and same:
        path = there.raw_path_qs
        path = path.removeprefix(base) if path.startswith(f"{base}/") else path
        return "/" + path.lstrip("/\\")  # two slashes would begin another host's name
    if status in REPEATING and not bodiless:
        raise UpstreamError("The upstream redirects to another host, which upstream.url would have to name.")
    return value
