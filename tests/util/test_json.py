"""Twin of sidecar/util/json.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sidecar.util import json

STARVED = """
import resource, sys
from sidecar.util import json
given, values = sys.argv[1], {"text": "x" * 50}
large = b"[" + b"1," * 500_000 + b"1]"
many = [1] * 500_000
held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (held + (2**21 if "large" in given else 0), -1))
hoard, size = [], 2**20
while "large" not in given and size > 256:
    try:
        hoard.append(bytearray(size))
    except MemoryError:
        size //= 2
try:
    {
        "write": lambda: json.dumps(values),
        "read": lambda: json.loads(b'{"text": "short"}'),
        "read large": lambda: json.loads(large),
        "write large": lambda: json.dumps(many, json.room_for(large)),
    }[given]()
except MemoryError:
    hoard.clear()
    sys.exit(json.loads(b"7"))
"""


@pytest.mark.parametrize("given", ["write", "read", "read large", "write large"])
def test_without_memory_there_is_an_error_and_the_process_lives(given: str) -> None:
    """`MemoryError` is raised, and afterwards all is as before; orjson itself would end the process."""
    done = subprocess.run([sys.executable, "-c", STARVED, given], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (7, b"")


def test_what_is_no_json_is_a_decode_error() -> None:
    """That is another matter than having no memory for it."""
    for raw in (b"{", b"\xff", "\ud800"):
        with pytest.raises(json.DecodeError):
            json.loads(raw)
    with pytest.raises(json.EncodeError):
        json.dumps({1})


def test_the_room_for_reading_grows_with_what_is_dense() -> None:
    """A list of empty lists takes many times its bytes, a text a few."""
    text, dense = b'["' + b"a" * 9_996 + b'"]', b"[" + b"[]," * 3_332 + b"[]]"
    assert 10 * len(text) < json.room_for(text) - json.LEAST < 30 * len(text)
    assert json.room_for(dense) > 100 * len(dense)
