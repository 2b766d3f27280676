"""Properties for any input: only documented errors are raised, nothing hangs, and every span is within the text.

A few hundred examples each in `make test`; `CHAOS_EXAMPLES` in `make chaos` sets many more.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, example, given
from hypothesis import settings as bounds
from hypothesis import strategies as st

from sidecar import config, policy
from sidecar.errors import BodyError, ConfigError, PolicyError, RequestError, UpstreamError
from sidecar.extraction import extraction, json_body, routes, scan_request
from sidecar.normalization import normalizations
from sidecar.proxy.relay import whole_events
from sidecar.response_scan import sse
from sidecar.scan.aggregation import ANONYMOUS, Aggregate, ScanRun, round_score
from sidecar.types import Finding, Label, LayerName, LayerReport, ScanRequest, Segment

EXAMPLES = int(os.environ.get("CHAOS_EXAMPLES", "100"))
many = bounds(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
SECONDS = 5.0

KEYS = st.sampled_from(
    [
        "messages",
        "role",
        "content",
        "input",
        "prompt",
        "text",
        "type",
        "tools",
        "image_url",
        "metadata",
        "name",
        "model",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ROLES = st.sampled_from(["user", "assistant", "system", "tool", "developer", "", "USER"])
VALUES = st.recursive(
    LEAVES | ROLES,
    lambda below: st.lists(below, max_size=5) | st.dictionaries(KEYS | st.text(max_size=5), below, max_size=5),
    max_leaves=30,
)
BODIES = st.dictionaries(KEYS, VALUES, max_size=6)
OPERATIONS = [
    "/chat/completions",
    "/responses",
    "/completions",
    "/embeddings",
    "/messages",
    "/threads",
    "/images/edits",
]


@many
@given(BODIES | VALUES, st.sampled_from(OPERATIONS), st.sampled_from(["openai", "anthropic"]))
def test_no_body_makes_extraction_raise_or_make_words_up(body: Any, operation: str, dialect: str) -> None:
    """For any shape: extraction returns segments, and every word of them is in the body."""
    begun = time.process_time()
    try:
        document = json_body.parse(json.dumps(body).encode(), depth=64)
        extracted = extraction.extract(document, operation, dialect)
    except BodyError:
        return
    text = "\n".join(_strings(document))
    for segment in extracted.segments:
        assert all(word in text for word in segment.text.split())
    assert time.process_time() - begun < SECONDS


def _strings(value: Any) -> list[str]:
    """Every key and every scalar of a document as text."""
    if isinstance(value, dict):
        return [word for key, below in value.items() for word in (key, *_strings(below))]
    return [word for below in value for word in _strings(below)] if isinstance(value, list) else [str(value)]


@many
@given(VALUES, st.sampled_from([scan_request.parse_scan, scan_request.parse_chat, scan_request.parse_batch]))
def test_no_value_makes_the_scan_door_raise_anything_but_its_own_error(body: Any, parse: Any) -> None:
    """A `ScanRequest`, or a `BodyError` that names a field."""
    with suppress(BodyError):
        parse(body)


@many
@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=200))
def test_a_view_of_clean_ascii_is_itself(text: str) -> None:
    """The first view is the unchanged text, and every offset maps to itself."""
    first = normalizations(text)[0]
    assert (first.text, first.name) == (text, "raw")
    for place in range(len(text)):
        assert first.locate(place, place + 1) == (place, place + 1)


@many
@given(st.text(alphabet=st.sampled_from("aA1=%u\\x&#;+-/\u200b\U000e0041\u202e._ |<>(){}01"), max_size=400))
def test_views_of_hostile_alphabets_end_and_lead_back(text: str) -> None:
    """With characters that decoders act on, the views end and every span is within the text."""
    begun = time.process_time()
    for view in normalizations(text):
        for start in range(0, len(view.text), 7):
            low, high = view.locate(start, min(len(view.text), start + 3))
            assert 0 <= low <= high <= len(text)
    assert time.process_time() - begun < SECONDS


@many
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode), st.lists(st.integers(0, 300), max_size=6))
@example(b"data: " + b"[" * 3000 + b"]" * 3000 + b"\n\n", [])
@example(b"data: " + b'{"a":' * 900 + b"1" + b"}" * 900 + b"\n\n", [])
def test_no_stream_makes_the_reader_of_events_raise(data: bytes, places: list[int]) -> None:
    """For any chunking the same bytes are returned, and each event is parsed or refused."""
    edges = sorted({0, len(data), *(place for place in places if place < len(data))})
    pieces = [data[low:high] for low, high in pairwise(edges)]

    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def passed() -> list[bytes]:
        return [part async for part in whole_events(chunks())]

    try:
        parts = asyncio.run(passed())
    except UpstreamError:
        return
    assert b"".join(parts) == data
    for part in parts:
        assert b"".join(sse.split_events(part)) == part
        for event in sse.split_events(part):
            with suppress(sse.Unreadable):
                assert sse.parse_event(event).encode() == event


SCALARS = st.sampled_from(
    ["2024-13-45", "0x_", "1e999", "~", "!!int ''", "&a [*a]", "!!python/object:os.system x", "'"]
)
LINES = st.sampled_from(["family: prompt_injection", "rules:", "  - id: A-1", "    score: 0.9", "    patterns: ['a']"])
DOCUMENTS = st.lists(LINES | SCALARS | st.text(max_size=20), max_size=12).map("\n".join)


@many
@given(DOCUMENTS | VALUES.map(json.dumps) | st.binary(max_size=100))
@example("family: 2024-13-45")
@example("[" * 5000)
@example("rules: [{id: 0x_}]")
@example("a: &a [*a]")
@example("!!int ''")
@example("!!bool x")
@example("!!timestamp x")
def test_no_policy_file_raises_anything_but_a_policy_error(content: str | bytes) -> None:
    """An incomplete or invalid file gives a list of problems, so that the last good policies stay in use."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        with suppress(PolicyError):
            policy.load([path])


@many
@given(DOCUMENTS | VALUES.map(json.dumps) | st.binary(max_size=100))
@example("listen: 2024-13-45")
@example("[" * 5000)
@example("a: &a [*a]")
@example("? {a: b}\n: c")
def test_no_settings_file_raises_anything_but_a_config_error(content: str | bytes) -> None:
    """The same for `config.yaml`."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        with suppress(ConfigError):
            config.load(path, {})


SCORES = st.floats(0, 1)
FINDINGS = st.lists(st.tuples(SCORES, st.sampled_from(Label)), max_size=4)


@many
@given(FINDINGS, FINDINGS, SCORES)
def test_the_verdict_is_monotone_in_findings(fewer: Any, added: Any, threshold: float) -> None:
    """What is found in addition never lowers the score, and never undoes a block."""
    few, many_ = _aggregate(fewer, threshold), _aggregate([*fewer, *added], threshold)
    assert round_score(many_.score or 0) >= round_score(few.score or 0)
    assert many_.blocked >= few.blocked


def _aggregate(scored: list[tuple[float, Label]], threshold: float) -> Aggregate:
    request = ScanRequest((Segment("text", path="a"),))
    run = ScanRun(request, ANONYMOUS, 0.0, threshold, (threshold,))
    findings = tuple(Finding("T-1", label, score, LayerName.RULES, "a") for score, label in scored)
    report = LayerReport(LayerName.RULES, max((score for score, _ in scored), default=0.0), findings)
    return Aggregate(threshold).merged_with(report, run)


@many
@given(
    st.text(alphabet=st.sampled_from("/v1chatomplesn%2eF.;\\?#\x00 "), max_size=40),
    st.sampled_from(["GET", "POST", "x"]),
)
def test_no_path_makes_the_classifier_raise_anything_but_its_own_error(path: str, method: str) -> None:
    """Any path gives a route or a `RequestError`."""
    with suppress(RequestError):
        routes.classify(method, "/" + path, prefixes=("/v1",), extra=())
