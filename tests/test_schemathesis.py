"""Schemathesis against a real sidecar: it answers as the description says, to bodies that nobody thought of."""

from __future__ import annotations

import subprocess

import neighbours
import pytest
from support import RULES_ONLY, StartSidecar

from sidecar.config import Compat

pytestmark = [pytest.mark.neighbours, pytest.mark.timeout(1200)]
EXAMPLES = 25
# Stricter than a schema can say, on purpose: integers beyond 64 bits, names that differ from known ones in case alone.
# And what no route of ours takes on /v1/moderations belongs to the inline door.
EXCLUDED = "positive_data_acceptance,unsupported_method"


def test_no_answer_is_other_than_described(start_sidecar: StartSidecar) -> None:
    """Every route, every switch but Envoy's (whose paths are the model's): no 5xx, no undescribed status or shape."""
    switches = {name: name != "envoy" for name in Compat.model_fields}
    made = start_sidecar({**RULES_ONLY, "compat": switches, "limits": {"rate": "100000/minute", "burst": 10_000}})
    key = made.new_key()["key"]
    command = [neighbours.neighbours() / "schemathesis", "run", f"{made.base}/openapi.json", "--no-color"]
    options = ["-H", f"X-API-Key: {key}", "--max-examples", str(EXAMPLES), "--exclude-checks", EXCLUDED, "--seed", "1"]
    ran = subprocess.run([*command, *options], capture_output=True, check=False, cwd=made.folder)
    assert ran.returncode == 0, ran.stdout.decode()[-6000:]
