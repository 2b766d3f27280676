"""A page of another origin in a real Chromium: it can use the data port only if `listen.origins` lists it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from chromium import IN_A_BROWSER
from playwright.sync_api import Browser
from support import RULES_ONLY, StartSidecar

pytestmark = IN_A_BROWSER
ASKS = """async ([url, type]) => {
  const body = JSON.stringify({model: "m", messages: [{role: "user", content: "Good morning!"}]});
  const headers = type ? {"Content-Type": type, "Authorization": "Bearer key"} : {};
  try {
    const answer = await fetch(url, {method: "POST", headers, body});
    return [answer.status, answer.headers.get("x-sidecar-decision")];
  } catch (error) { return [0, null]; }
}"""


class Blank(BaseHTTPRequestHandler):
    """Serves an empty page."""

    def do_GET(self) -> None:
        """Answer any path."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The origin of another web site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("type_", ["application/json", ""])
@pytest.mark.parametrize("allowed", [True, False])
def test_a_page_of_another_site(
    browser: Browser, site: str, start_sidecar: StartSidecar, type_: str, allowed: bool
) -> None:
    """With and without a preflight: a listed origin gets its response; for others nothing is scanned or forwarded."""
    running = start_sidecar({**RULES_ONLY, "listen": {"origins": [site] if allowed else []}})
    page = browser.new_page()
    page.goto(site)
    status, decision = page.evaluate(ASKS, [f"{running.base}/v1/chat/completions", type_])
    page.close()
    if not allowed:
        assert (status, decision) == (0, None)
    elif type_:
        assert (status, decision is not None) == (200, True)
    else:
        assert status == 415  # the browser sends text/plain
