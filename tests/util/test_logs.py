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


def log_output(style: str) -> str:
    """What a real process writes to standard error."""
    process = subprocess.run([sys.executable, "-c", SCRIPT, style], capture_output=True, check=True, text=True)
    assert process.stdout == ""
    return process.stderr


def test_a_line_is_one_line_without_control_characters() -> None:
    """Line breaks, terminal codes and separators supplied by a client are escaped."""
    for style in ("console", "json"):
        text = log_output(style)
        assert len(text.splitlines()) == 1
        assert "\x1b[31m" not in text
        assert "forged" in text


def test_json_lines_hold_facts_as_keys() -> None:
    """JSON lines have a constant event, a level, a timestamp and the facts; errors are logged as type and text."""
    line = json.loads(log_output("json"))
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


def test_library_logs_are_one_line_without_exception_text_or_repeats() -> None:
    """A failing event loop once wrote a gigabyte of tracebacks in half an hour."""
    process = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, check=True, text=True)
    assert process.stderr.splitlines()[-1] == "ERROR asyncio Something else 7"
    assert set(process.stderr.splitlines()[:-1]) == {"ERROR asyncio Fatal error on transport ValueError"}
    assert len(process.stderr.splitlines()) < 20


def test_a_workers_lines_have_its_number() -> None:
    """Several processes write to one stream; a line that names a worker itself keeps that one."""
    script = SCRIPT.replace("log.debug", "logs.name_worker(3)\nlog.debug") + 'log.info("worker_died", worker=1)\n'
    process = subprocess.run([sys.executable, "-c", script, "json"], capture_output=True, check=True, text=True)
    assert [json.loads(line)["worker"] for line in process.stderr.splitlines()] == [3, 1]
