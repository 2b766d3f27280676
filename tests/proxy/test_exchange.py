"""Twin of sidecar/proxy/exchange.py: headers, record and upstream request of an exchange."""

from __future__ import annotations

import gc
import weakref

from aiohttp.test_utils import make_mocked_request

from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.routes import classify
from sidecar.limits import MemoryBudget
from sidecar.proxy.exchange import Exchange
from sidecar.proxy.request_body import RequestBody
from sidecar.response_scan.placeholders import Placeholders, Span
from sidecar.scan.service import ScanOutcome
from sidecar.server.body import RESERVATION
from sidecar.types import Segment

PREFIXES = ("/v1", "/openai/deployments/{deployment}")


class Document(dict[str, JsonValue]):
    """A parsed document that can be observed: a plain dict has no weak references."""


def new_exchange(path: str = "/v1/chat/completions?a=1", **headers: str) -> Exchange:
    """A request that has been classified."""
    request = make_mocked_request("POST", path, headers=headers)
    return Exchange(request, "dec_1", classify("POST", path, prefixes=PREFIXES))


def test_headers_report_the_outcome() -> None:
    """Headers for stripped, redacted and unscanned content appear only if there is any."""
    exchange = new_exchange()
    assert set(exchange.headers) == {
        "x-sidecar-decision",
        "x-sidecar-action",
        "x-sidecar-risk-score",
        "x-sidecar-threats",
    }
    exchange.placeholders, exchange.stripped_turns, exchange.outcome = Placeholders(), 2, ScanOutcome(unscanned="media")
    assert "x-sidecar-redacted" not in exchange.headers
    exchange.placeholders.redact("a@b.de", [Span(0, 6, "EMAIL")])
    assert (exchange.headers["x-sidecar-redacted"], exchange.headers["x-sidecar-stripped"]) == ("1", "2")
    assert exchange.headers["x-sidecar-unscanned"] == "media"


def test_an_uncompressed_response_is_requested_only_if_it_is_scanned() -> None:
    """Otherwise the client's Accept-Encoding is forwarded."""
    exchange = new_exchange(**{"Accept-Encoding": "br"})
    assert exchange.route is not None
    assert exchange.upstream_request(exchange.route, uncompressed=False).headers["Accept-Encoding"] == "br"
    assert exchange.upstream_request(exchange.route, uncompressed=True).headers.getall("Accept-Encoding") == [
        "identity"
    ]


def test_the_credential_is_in_the_header_of_the_api() -> None:
    """Of OpenAI, Azure and Anthropic."""
    paths = ("/v1/chat/completions", "/openai/deployments/d/chat/completions", "/v1/messages")
    calls = [new_exchange(path) for path in paths]
    fields = [
        exchange.upstream_request(exchange.route, uncompressed=False).credential for exchange in calls if exchange.route
    ]
    assert fields == ["Authorization", "Api-Key", "X-API-Key"]


def test_an_unclassified_request_is_answered_as_openai_would() -> None:
    """Errors can occur before the route is known."""
    assert Exchange(make_mocked_request("GET", "/x"), "dec_1").dialect == "openai"


async def test_waiting_for_the_upstream_releases_the_document() -> None:
    """The document is dropped, and its memory reservation is released."""
    exchange = new_exchange()
    exchange.body = RequestBody(b"x" * 1000, Extraction((Segment("y" * 500),)), {"a": 1})
    with MemoryBudget(100_000).reserve() as reservation:
        exchange.request[RESERVATION] = reservation
        await reservation.resize(40_000)
        exchange.release_document()
        assert 2_500 < reservation.size < 2_700
    assert (exchange.body.document, exchange.body.content) == (None, b"x" * 1000)


async def test_waiting_for_the_upstream_nothing_holds_the_document() -> None:
    """Neither the body nor the texts that were extracted from it: its memory is free, and the texts remain."""
    exchange, document = new_exchange(), Document(messages=[{"role": "user", "content": "hello"}])
    exchange.body = RequestBody(b"x", extract(document, "/chat/completions", "openai"), document)
    observed = weakref.ref(document)
    del document
    with MemoryBudget(100_000).reserve() as reservation:
        exchange.request[RESERVATION] = reservation
        exchange.release_document()
    gc.collect()
    assert observed() is None
    assert [segment.text for segment in exchange.body.texts.segments] == ["hello"]
