"""What the fuzzer calls: each takes any bytes and raises only if the code under it has broken a promise.

`run.py` drives them guided by coverage (`make fuzz`); `test_corpus.py` gives them what that has found so far.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from sidecar import policy
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError, RequestError, UpstreamError
from sidecar.extraction import extraction, forms, json_body, routes, scan_request
from sidecar.normalization import normalizations
from sidecar.proxy.relay import whole_events
from sidecar.response_scan import sse
from sidecar.types import ScanRequest, Segment, Source

OPERATIONS = (
    "/chat/completions",
    "/responses",
    "/completions",
    "/embeddings",
    "/messages",
    "/threads",
    "/images/edits",
)
FORM = 'multipart/form-data; boundary="x"'
LIMIT = 2**20
ODD = ("//", "/./", "/../", "%2f", "%2F", "\\", "\0")
"""Ways to spell a path that two servers could read differently."""
T = TypeVar("T")


def bodies(data: bytes) -> None:
    """A body is refused, or it has one meaning, and its texts are words of its own."""
    operation, raw = OPERATIONS[(data or b"\0")[0] % len(OPERATIONS)], data[1:]
    with suppress(BodyError):
        document = json_body.parse(raw, depth=64)
        assert json.loads(raw, object_pairs_hook=_once) == document
        for parse in (scan_request.parse_scan, scan_request.parse_chat, scan_request.parse_batch):
            with suppress(BodyError):
                parse(document)
        found = extraction.extract(document, operation, "anthropic" if operation == "/messages" else "openai")
        said = "\n".join(_strings(document))
        for segment in found.segments:
            assert all(word in said for word in segment.text.split())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    assert len(made) == len(pairs), "a name given twice was accepted"
    return made


def _strings(value: Any) -> Iterator[str]:
    """Every key and every scalar as text."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield key
            yield from _strings(below)
    elif isinstance(value, list):
        for below in value:
            yield from _strings(below)
    else:
        yield str(value)


def uploads(data: bytes) -> None:
    """Forms, files of JSON lines, and packed bodies: read or refused, never larger than the limit."""
    with suppress(BodyError):
        parts = forms.parse_form(data, content_type=FORM)
        forms.extract_form(parts, depth=64)
        forms.extract_upload(parts, depth=64)
    with suppress(BodyError):
        list(forms.scan_jsonl(data, depth=64))
    for coding in ("gzip", "deflate"):
        with suppress(BodyError):
            assert len(json_body.inflate(data, coding, limit=LIMIT)) <= LIMIT


def hidden(data: bytes) -> None:
    """Every place in every view leads back into the text; clean ASCII is its own first view."""
    text = data.decode("utf-8", "replace")
    found = normalizations(text)
    assert (found[0].text, found[0].name) == (text, "raw")
    for view in found:
        for start in range(0, len(view.text), 5):
            low, high = view.locate(start, min(len(view.text), start + 3))
            assert 0 <= low <= high <= len(text)


@functools.cache
def _layer() -> RulesLayer:
    return RulesLayer(policy.load())


def rules(data: bytes) -> None:
    """The shipped rules on any text: scores between 0 and 1, spans inside the text, the same twice."""
    text = data.decode("utf-8", "replace")
    segment = Segment(text, path="prompt", source=Source.USER)
    report = asyncio.run(_layer().scan(ScanRequest((segment,)), ()))
    for finding in report.findings:
        assert 0 <= finding.score <= 1
        assert 0 <= (finding.start or 0) <= (finding.end or 0) <= len(text)
    assert 0 <= (report.score or 0) <= 1


def streams(data: bytes) -> None:
    """However a stream is cut on the way, the same events come out, byte for byte; each is read or refused."""
    step, raw = 1 + (data or b"\0")[0], data[1:]
    try:
        whole, cut = (_finished(_passed(raw, size)) for size in (max(1, len(raw)), step))
    except UpstreamError:
        return
    assert b"".join(whole) == b"".join(cut) == raw
    for part in cut:
        assert b"".join(sse.split_events(part)) == part
        for event in sse.split_events(part):
            with suppress(sse.Unreadable):
                assert sse.parse_event(event).encode() == event


async def _passed(raw: bytes, step: int) -> list[bytes]:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(raw), step):
            yield raw[start : start + step]

    return [part async for part in whole_events(chunks())]


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing: a loop for each would be most of the work."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    work.close()
    return asyncio.run(work)


def targets(data: bytes) -> None:
    """A request target is a route or refused; what is served has one spelling."""
    with suppress(RequestError):
        target = "/" + data.decode("latin-1")
        found = routes.classify("POST", target, prefixes=("/v1",), extra=())
        path = found.path.partition("?")[0]
        assert found.kind is routes.RouteKind.UNKNOWN or not any(odd in path for odd in ODD)


TARGETS: dict[str, Callable[[bytes], None]] = {
    made.__name__: made for made in (bodies, uploads, hidden, rules, streams, targets)
}
