"""Twin of sidecar/util/logs.py."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import sys
from sidecar.util import logs
logs.configure(sys.argv[1], "info")
log = logs.get("test")
log.debug("hidden_event")
odd = {"large": 2**70, "odd": {1}}
log.info("thing_happened", path="/v1/\\r\\nforged\\x1b[31m\\u2028", count=3, error=ValueError("bad"), **odd)
"""


def written(style: str) -> str:
    """What a real process writes to standard error."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, style], capture_output=True, check=True, text=True)
    assert done.stdout == ""
    return done.stderr


def test_a_line_is_one_line_without_control_characters() -> None:
    """Line breaks, terminal codes and separators made by a client are shown as escapes."""
    for style in ("console", "json"):
        text = written(style)
        assert len(text.splitlines()) == 1
        assert "\x1b[31m" not in text
        assert "forged" in text


def test_json_lines_hold_facts_as_keys() -> None:
    """JSON lines have a constant event, a level, a time and the facts; errors are their type and text."""
    line = json.loads(written("json"))
    assert (line["event"], line["level"], line["count"]) == ("thing_happened", "info", 3)
    assert line["error"] == "ValueError: bad"
    assert line["timestamp"].endswith("Z")
    assert (line["large"], line["odd"]) == (2**70, "{1}")


LIBRARY = """
import logging
from sidecar.util import logs
logs.configure("json", "info")
for number in range(1_000):
    logging.getLogger("asyncio").error("Fatal error on transport\\nprotocol: canary-1", exc_info=ValueError("canary-2"))
logging.getLogger("asyncio").error("Something else %d", 7)
"""


def test_what_a_library_says_is_one_line_without_a_text_and_not_said_again_at_once() -> None:
    """A failing event loop wrote a gigabyte of tracebacks in half an hour."""
    done = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, check=True, text=True)
    assert done.stderr.splitlines()[-1] == "ERROR asyncio Something else 7"
    assert set(done.stderr.splitlines()[:-1]) == {"ERROR asyncio Fatal error on transport ValueError"}
    assert len(done.stderr.splitlines()) < 20
