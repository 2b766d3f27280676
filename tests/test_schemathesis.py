"""Schemathesis against a real sidecar: it answers as the description says, to bodies that nobody thought of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import neighbours
import pytest
from support import RULES_ONLY, StartSidecar

from sidecar.config import Compat

pytestmark = [pytest.mark.neighbours, pytest.mark.timeout(1200)]
EXAMPLES = 25
# Stricter than a schema can say, on purpose: integers beyond 64 bits, names that differ from known ones in case alone.
# And what no route of ours takes on /v1/moderations belongs to the inline door.
EXCLUDED = "positive_data_acceptance,unsupported_method"
REFUSING = ("/v1/classify", "/portkey/webhook")
"""Contracts whose errors are refusals with 200."""


def run(base: str, folder: Path, *options: str, excluded: str = EXCLUDED) -> None:
    """Ask the description for routes, and them for what nobody thought of."""
    command = [neighbours.neighbours() / "schemathesis", "run", f"{base}/openapi.json", "--no-color", "--seed", "1"]
    asked = ["--max-examples", str(EXAMPLES), "--exclude-checks", excluded, *options]
    ran = subprocess.run([*command, *asked], capture_output=True, check=False, cwd=folder)
    assert ran.returncode == 0, ran.stdout.decode()[-6000:]


def test_no_answer_is_other_than_described(start_sidecar: StartSidecar) -> None:
    """Every route, every switch but Envoy's (whose paths are the model's): no 5xx, no undescribed status or shape."""
    switches = {name: name != "envoy" for name in Compat.model_fields}
    rate = {"rate": "100000/minute", "burst": 10_000}
    made = start_sidecar({**RULES_ONLY, "compat": switches, "limits": rate, "auth": {"failures": "100000/minute"}})
    key = ("-H", f"X-API-Key: {made.new_key()['key']}")
    run(made.base, made.folder, *key, *(word for path in REFUSING for word in ("--exclude-path", path)))
    refusing = [word for path in REFUSING for word in ("--include-path", path)]
    run(made.base, made.folder, *key, *refusing, excluded=f"{EXCLUDED},negative_data_rejection")


def test_the_admin_port_answers_as_described(start_sidecar: StartSidecar) -> None:
    """Its JSON and its metrics; the pages, which no schema describes, have `dashboard/test_attacks.py`."""
    made = start_sidecar(RULES_ONLY)
    paths = [word for path in ("/ready", "/startup", "/metrics", "/openapi.json") for word in ("--include-path", path)]
    run(made.admin, made.folder, *paths)
