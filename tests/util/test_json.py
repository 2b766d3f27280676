"""Twin of sidecar/util/json.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sidecar.util import json

STARVED = """
import resource, sys
from sidecar.util import json as jsons
operation, values = sys.argv[1], {"text": "x" * 50}
large = b"[" + b"1," * 500_000 + b"1]"
many = [1] * 500_000
held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (held + (2**21 if "large" in operation else 0), -1))
hoard, size = [], 2**20
while "large" not in operation and size > 256:
    try:
        hoard.append(bytearray(size))
    except MemoryError:
        size //= 2
try:
    {
        "write": lambda: jsons.dumps(values),
        "read": lambda: jsons.loads(b'{"text": "short"}'),
        "read large": lambda: jsons.loads(large),
        "write large": lambda: jsons.dumps(many, jsons.memory_for(large)),
    }[operation]()
except MemoryError:
    hoard.clear()
    sys.exit(jsons.loads(b"7"))
"""


@pytest.mark.parametrize("operation", ["write", "read", "read large", "write large"])
def test_out_of_memory_raises_and_the_process_survives(operation: str) -> None:
    """`MemoryError` is raised and JSON works again afterwards; unguarded orjson would end the process."""
    process = subprocess.run([sys.executable, "-c", STARVED, operation], capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (7, b"")


def test_invalid_json_is_a_decode_error() -> None:
    """Invalid input is distinguished from missing memory."""
    for raw in (b"{", b"\xff", "\ud800"):
        with pytest.raises(json.DecodeError):
            json.loads(raw)
    with pytest.raises(json.EncodeError):
        json.dumps({1})


def test_the_memory_estimate_grows_with_density() -> None:
    """A list of empty lists takes over a hundred times its size, a string 10 to 30 times."""
    text, dense = b'["' + b"a" * 9_996 + b'"]', b"[" + b"[]," * 3_332 + b"[]]"
    assert 10 * len(text) < json.memory_for(text) - json.SMALL < 30 * len(text)
    assert json.memory_for(dense) > 100 * len(dense)


@pytest.mark.parametrize("raw", [b'{"n": NaN}', b'["\\ud83d"]', b"[-Infinity]", b"[1]"])
def test_lenient_parsing_reads_what_clients_read(raw: bytes) -> None:
    """NaN and lone surrogates."""
    assert json.loads_leniently(raw)


@pytest.mark.parametrize("raw", [b"{", b"[" * 100_000, b"\xff"])
def test_lenient_parsing_has_one_kind_of_error(raw: bytes) -> None:
    """Nesting that is too deep, too."""
    with pytest.raises(ValueError, match=r"JSON|nested|decode|unexpected|delimited|Expecting"):
        json.loads_leniently(raw)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (' {"a": 1}', {"a": 1}),
        ("[1]", [1]),
        ('"a\\u0062"', "ab"),
        ('{"a": "\\ud83d", "b": Infinity}', {"a": "\ud83d", "b": float("inf")}),
        ("3", "3"),
        ("{a", "{a"),
        ('"a" b', '"a" b'),
        ("", ""),
    ],
)
def test_what_a_text_holds_as_json(text: str, value: object) -> None:
    """Objects, lists and texts; another text is itself."""
    assert json.embedded(text) == value


def test_a_lone_surrogate_is_made_encodable() -> None:
    """Nothing else is changed."""
    assert [json.encodable(text) for text in ("a", "é😀", "é\ud83d")] == ["a", "é😀", "é?"]
