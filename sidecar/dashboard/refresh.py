"""Pages that load themselves again, by a header and so without a script, where `live` is in their query."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from aiohttp import web

LIVE_SECONDS = 30
_NOT_KEPT = frozenset({"live", "done"})


def refreshed(answer: web.Response, query: Mapping[str, str], seconds: int = LIVE_SECONDS) -> web.Response:
    """The page, which is loaded again after so many seconds if its query says so."""
    if query.get("live"):
        answer.headers["Refresh"] = str(seconds)
    return answer


def toggle_link(path: str, query: Mapping[str, str]) -> str:
    """The address of the same page, refreshing if it does not, and else not."""
    fields = {name: value for name, value in query.items() if name not in _NOT_KEPT}
    encoded = urlencode(fields if query.get("live") else fields | {"live": "1"})
    return quote(path) + (f"?{encoded}" if encoded else "")
