"""Twin of sidecar/proxy/exchange.py: what is known of a request, as headers, record and forward."""

from __future__ import annotations

from aiohttp.test_utils import make_mocked_request
from inline_proxy import RecordedDecisionLog

from sidecar.extraction.extraction import Extraction
from sidecar.extraction.routes import classify
from sidecar.limits import MemoryBudget
from sidecar.proxy.exchange import Call
from sidecar.proxy.request_body import Payload
from sidecar.response_scan.placeholders import Placeholders, Span
from sidecar.server.body import RESERVATION
from sidecar.types import Segment

PREFIXES = ("/v1", "/openai/deployments/{deployment}")


def call(path: str = "/v1/chat/completions?a=1", **headers: str) -> Call:
    """A request that has been classified."""
    request = make_mocked_request("POST", path, headers=headers)
    return Call(request, "dec_1", classify("POST", path, prefixes=PREFIXES))


def test_headers_tell_what_was_done() -> None:
    """What was stripped, redacted or went up unseen is said only where it was."""
    made = call()
    assert set(made.headers) == {
        "x-sidecar-decision",
        "x-sidecar-action",
        "x-sidecar-risk-score",
        "x-sidecar-threats",
    }
    made.names, made.stripped, made.unscanned = Placeholders(), 2, "media"
    assert "x-sidecar-redacted" not in made.headers
    made.names.redact("a@b.de", [Span(0, 6, "EMAIL")])
    assert (made.headers["x-sidecar-redacted"], made.headers["x-sidecar-stripped"]) == ("1", "2")
    assert made.headers["x-sidecar-unscanned"] == "media"


def test_the_record_names_the_path_without_its_query() -> None:
    """And lengths instead of texts."""
    made = call()
    made.segments = (Segment("hello"), Segment("you"))
    made.payload = Payload(b"{}", Extraction(model="m"))
    record = made.decision(RecordedDecisionLog(), 200)
    assert (record.route, record.length, record.segments, record.model, record.text) == (
        "/v1/chat/completions",
        9,
        2,
        "m",
        "",
    )


def test_what_goes_up_asks_for_a_plain_answer_only_where_it_is_looked_at() -> None:
    """Else the client's own wish goes up."""
    made = call(**{"Accept-Encoding": "br"})
    assert made.route is not None
    assert made.outgoing(made.route, plain=False).headers["Accept-Encoding"] == "br"
    assert made.outgoing(made.route, plain=True).headers.getall("Accept-Encoding") == ["identity"]


def test_the_credential_stands_where_the_api_expects_it() -> None:
    """OpenAI's, Azure's and Anthropic's."""
    paths = ("/v1/chat/completions", "/openai/deployments/d/chat/completions", "/v1/messages")
    calls = [call(path) for path in paths]
    fields = [made.outgoing(made.route, plain=False).credential for made in calls if made.route]
    assert fields == ["Authorization", "Api-Key", "X-API-Key"]


def test_an_unclassified_request_is_answered_as_openai_would() -> None:
    """Errors need a dialect before there is a route."""
    assert Call(make_mocked_request("GET", "/x"), "dec_1").dialect == "openai"


async def test_while_the_upstream_thinks_a_request_holds_what_is_left_of_it() -> None:
    """The document is dropped, and the memory for reading it is given back."""
    made = call()
    made.payload = Payload(b"x" * 1000, Extraction((Segment("y" * 500),)), {"a": 1})
    with MemoryBudget(100_000).reserve() as reservation:
        made.request[RESERVATION] = reservation
        await reservation.resize(40_000)
        made.lighten()
        assert 2_500 < reservation.size < 2_700
    assert (made.payload.document, made.payload.body) == (None, b"x" * 1000)
