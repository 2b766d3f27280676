"""Tests `sidecar.extraction.json_body`: a body is unambiguous or is refused in bounded time."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
import time
import zlib
from contextlib import suppress

import brotli
import orjson
import pytest
from extraction import json_cases, strict_json
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.errors import BodyError
from sidecar.extraction.json_body import check_type, inflate, parse
from sidecar.util.codings import zstd

LIMIT = 1000


def refusal(raw: bytes, depth: int = 64) -> BodyError | None:
    """The error that a body is refused with, None if it is accepted."""
    try:
        parse(raw, depth=depth)
    except BodyError as error:
        return error
    return None


def refused(raw: bytes, depth: int = 64) -> BodyError:
    """The error that a body is refused with."""
    error = refusal(raw, depth)
    assert error is not None
    return error


def strict(raw: bytes, depth: int = 64) -> bool:
    """Whether the slow parser accepts a body."""
    try:
        strict_json.read(raw, depth=depth)
    except strict_json.NotStrictError:
        return False
    return True


def test_invalid_json_is_refused() -> None:
    """All invalid documents, more than the known suite has, are refused with 400."""
    cases = set(json_cases.invalid())
    assert len(cases) >= 300
    assert [raw for raw in cases if refusal(raw) is None] == []
    assert {(error.kind, error.status) for raw in cases if (error := refusal(raw))} == {("malformed", 400)}
    assert [raw for raw in cases if strict(raw)] == []


def test_json_with_two_readings_is_refused() -> None:
    """Duplicate names, names confusable with known ones, and integers that some parsers round are refused with 400."""
    cases = set(json_cases.ambiguous())
    assert len(cases) >= 50
    assert [raw for raw in cases if refusal(raw) is None] == []


@pytest.mark.parametrize("text", json_cases.VALID)
def test_valid_json_is_read(text: str) -> None:
    """Unambiguous JSON is parsed as other parsers do."""
    assert parse(text.encode(), depth=64) == json.loads(text)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('{"messages":[', "]}")])
def test_depth_is_bounded_exactly(opening: str, closing: str) -> None:
    """Nesting up to the limit is accepted, one more level is refused, and a hundred thousand do no harm."""
    width = opening.count("[") + opening.count("{")
    for levels in (8, 64, 512):
        fits = opening * (levels // width) + "1" + closing * (levels // width)
        assert parse(fits.encode(), depth=levels) is not None
        assert "deeper" in refused(f"[{fits}]".encode(), depth=levels).detail
    assert refused((opening * 100_000).encode()).kind == "malformed"
    assert refused((opening * 100_000 + "1" + closing * 100_000).encode()).kind == "malformed"


def test_errors_say_what_and_where_without_quoting() -> None:
    """A message names the position or a known name, never client text."""
    assert "line 1 column 12" in refused(b'{"prompt": secret}').detail
    assert "'prompt'" in refused(b'{"prompt":"secret","prompt":"secret"}').detail
    for raw in (b'{"secret":1,"secret":2}', b'{"x":"secret\xff"}', b'["secret\n"]', b'{"Prompt":"secret"}'):
        assert "secret" not in refused(raw).detail


JSON_TEXT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([":", '":', "\\"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", ":", '"', "\\", "é"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """JSON in several styles, sometimes with a name given twice, sometimes damaged."""
    value = draw(JSON_TEXT)
    style = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]))
    text = json.dumps(value, separators=style, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        old, new = draw(
            st.sampled_from([('"a"', '"b"'), ("a", "\\u0061"), (":", "\\u003a"), ('"', '\\"'), ("[", "{"), ("1", "1e")])
        )
        text = text.replace(old, new, draw(st.integers(1, 3)))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + draw(st.text(alphabet='{}[]",:\\ue1.-+ \n\x00é😀', max_size=2))
            + text[at + draw(st.integers(0, 2)) :]
        )
    return b'{"metadata":' + text.encode("utf-8", "surrogatepass") + b"}"


@settings(max_examples=600)
@given(documents(), st.integers(1, 6))
@example(b'{"metadata":{"a":":","\\u0061":1}}', 6)
@example(b'{"metadata":{"a":"\\u003a","a":1}}', 6)
@example(b'{"metadata":[1e19,18446744073709551616]}', 6)
def test_parse_agrees_with_a_slow_strict_reader(raw: bytes, depth: int) -> None:
    """The fast parser accepts exactly what the grammar and our bounds allow, and returns the same value."""
    if not strict(raw, depth):
        assert refusal(raw, depth) is not None
        return
    assert _shown(parse(raw, depth=depth)) == _shown(strict_json.read(raw, depth=depth))


def _shown(value: object) -> str:
    """A text that distinguishes 1 from 1.0 and true, but not -0 from 0, which orjson does not either."""
    return json.dumps(value).replace("-0.0", "0.0")


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    """Whatever arrives is a value or a `BodyError`."""
    for attempt in (
        lambda: parse(raw, depth=8),
        lambda: inflate(raw, "gzip", limit=LIMIT),
        lambda: inflate(raw, "deflate", limit=LIMIT),
        lambda: inflate(raw, raw.decode("latin-1"), limit=LIMIT),
        lambda: check_type(raw.decode("latin-1")),
    ):
        with suppress(BodyError):
            attempt()


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,' * 200_000,
        b"{" + b",".join(b'"\\u0061":1' for _ in range(200_000)) + b"}",
        b"{" + b",".join(b'"K%d":1' % n for n in range(100_000)) + b"}",
        b"{" + ",".join(f'"\uff4b{n}":1' for n in range(100_000)).encode() + b"}",
        b'{"messages": [' + b",".join([b"1e300"] * 300_000) + b"]}",
        b'"' + b'\\":' * 500_000 + b'"',
        b"[" * 1_000_000,
        b'{"seed": ' + b"9" * 1_000_000 + b"}",
        b"{" + b",".join(b'"k%d":1' % n for n in (*range(100_000), 99_999)) + b"}",
    ],
    ids=["unclosed", "one name", "many names", "wide names", "floats", "colons", "brackets", "digits", "last name"],
)
def test_hostile_bodies_end_soon(raw: bytes) -> None:
    """A megabyte designed to be slow is handled in far less time than a client would wait."""
    started = time.monotonic()
    refusal(raw)
    assert time.monotonic() - started < 5


def test_json_in_utf_8_is_taken() -> None:
    """In any case and form of its name; a charset may be named."""
    for content_type in (
        "application/json",
        "Application/JSON; charset=UTF-8",
        'application/json;charset="utf8"',
        "application/vnd.x+json",
    ):
        check_type(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        None, "", "text/plain", "text/json", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded",
        "application/json; charset=utf-7", "application/json; charset=utf-16", "application/json;charset=cp037",
        "application/json; charset=utf-8; charset=utf-7", "application/json; charset=",
        "application/json; CHARSET=latin-1",
        "application/json; charset*=utf-7", "application/json, text/plain", "application/jsonx", "json", "*/*",
    ],
)  # fmt: skip
def test_another_type_or_charset_is_refused(content_type: str | None) -> None:
    """Any content type other than JSON in UTF-8 is refused with 415."""
    with pytest.raises(BodyError) as caught:
        check_type(content_type)
    assert (caught.value.kind, caught.value.status) == ("encoding", 415)


PACK = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}


@pytest.mark.parametrize("coding", ["gzip", "GZIP", " deflate ", "br", "Zstd"])
def test_one_coding_is_undone(coding: str) -> None:
    """A supported coding is decompressed, with its name in any case."""
    body = b'{"prompt":"hello"}'
    packed = PACK[coding.strip().lower()](body)
    assert inflate(packed, coding, limit=LIMIT) == body


@pytest.mark.parametrize(
    "coding", ["dcb", "x-gzip", "gzip, gzip", "gzip,deflate", "identity", "compress", "", "gzip;q=1", "*"]
)
def test_another_coding_is_refused(coding: str) -> None:
    """Multiple and unsupported codings are refused with 415, independent of the installed libraries."""
    with pytest.raises(BodyError) as caught:
        inflate(b"{}", coding, limit=LIMIT)
    assert (caught.value.kind, caught.value.status) == ("encoding", 415)


def test_damaged_codings_are_refused() -> None:
    """A truncated stream, trailing data, or another coding is refused with 400; no prefix is accepted."""
    body = b'{"prompt":"hello"}'
    for coding, packed in [(coding, pack(body)) for coding, pack in PACK.items()]:
        broken = [packed[:length] for length in range(len(packed))]
        broken += [packed + b"x", packed + packed, packed + b"\x00" * 8, body]
        broken += [bytes([packed[0] ^ 1]) + packed[1:]] if coding != "br" else []
        for raw in broken:
            with pytest.raises(BodyError) as caught:
                inflate(raw, coding, limit=LIMIT)
            assert (caught.value.kind, caught.value.status) == ("malformed", 400)
    with pytest.raises(BodyError):
        inflate(zlib.compress(body, wbits=-15), "deflate", limit=LIMIT)


def test_bombs_stop_at_the_limit() -> None:
    """Decompression stops one byte past the limit; a body of exactly the limit is accepted."""
    for coding, pack in PACK.items():
        assert len(inflate(pack(b" " * LIMIT), coding, limit=LIMIT)) == LIMIT
        for size in (LIMIT + 1, 50_000_000):
            with pytest.raises(BodyError) as caught:
                inflate(pack(b" " * size), coding, limit=LIMIT)
            assert (caught.value.kind, caught.value.status) == ("oversize", 413)


def test_numbers_keep_their_value() -> None:
    """Large floats are accepted in any notation; large integers are refused, not rounded."""
    assert parse(b'{"a":1e300,"b":-1E+19,"c":9223372036854775808}', depth=4) == {"a": 1e300, "b": -1e19, "c": 2**63}
    assert math.isclose(parse(b"0.1", depth=1), 0.1)  # type: ignore[arg-type]
    assert refused(b"18446744073709551616").kind == "malformed"


def test_reading_costs_little_beside_the_parser() -> None:
    """An ordinary chat of 50 KB as the official clients write it costs a few times the parser alone."""
    content = "A question about the weather, and some words: more of them. " * 10
    body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": content}] * 80})
    assert _best(lambda: parse(body, depth=64)) < 12 * _best(lambda: orjson.loads(body))


def _best(run: object) -> float:
    times = []
    for _ in range(30):
        started = time.perf_counter()
        run()  # type: ignore[operator]
        times.append(time.perf_counter() - started)
    return min(times)


MEASURE = """
import sys
from sidecar.extraction import extraction, json_body
from sidecar.errors import BodyError

def memory(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

def read(raw):
    try:
        return extraction.extract(json_body.parse(raw, depth=64), "/chat/completions", "openai")
    except BodyError as error:
        return error

read(b'{"messages": []}')
piece = sys.argv[1].encode()
raw = b'{"messages": [{"content": [' + piece * (2**20 // len(piece)) + b'""]}]}'
before = memory("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
kept = read(raw)
print(memory("VmHWM") - before, json_body.footprint(raw))
"""


@pytest.mark.parametrize("piece", ["[],", '"a",', '{"a":{"b":0}},', '"wide \U0001f600 text",'])
def test_what_reading_takes_is_known_before(piece: str) -> None:
    """Parsing the densest bodies, in a separate process, takes at most the estimated memory."""
    process = subprocess.run([sys.executable, "-c", MEASURE, piece], capture_output=True, text=True, check=True)
    used, estimated = map(int, process.stdout.split())
    assert 2**20 < used < estimated
