"""The recipe for garak: its options and prompts, sent as garak's documentation says, to a real sidecar.

Documented for the generator `rest`: `req_template_json_object` is serialized as JSON, `$INPUT` in it and `$KEY` in the
headers are replaced, `response_json_field` names a field or is a JSONPath, and a status of `skip_codes` has no output.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx2 as httpx
import pytest
from pages import DOCS, ROOT, blocks
from support import SidecarProcess, StartSidecar

PROBES = ROOT / "integrations" / "garak" / "own_prompts.py"
OPTIONS = {
    *("uri", "name", "key_env_var", "req_template", "req_template_json_object", "method", "headers", "proxies"),
    *("response_json", "response_json_field", "request_timeout", "ratelimit_codes", "skip_codes", "verify_ssl"),
}
"""Those of the documentation (reference.garak.ai, generators/rest)."""
SCAN, INLINE = (
    json.loads(block.text)["rest"]["RestGenerator"]
    for block in blocks("json")
    if block.page == DOCS / "recipes" / "garak.md"
)
LISTED = """
import json, runpy, sys
probes = [each for each in runpy.run_path(sys.argv[1]).values() if getattr(each, "prompts", None)]
print(json.dumps({each.__name__: [each.primary_detector, each.active, each.prompts] for each in probes}))
"""


@pytest.fixture(scope="module")
def guard(start_sidecar: StartSidecar) -> SidecarProcess:
    """A sidecar with the default layers in front of a model that repeats what it got."""
    echo = start_sidecar({"mode": "monitor"})
    return start_sidecar({"upstream": {"url": echo.base}})


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, bool, list[str]]]:
    """Detector, state and prompts of each probe of the file, with a base class that stands for garak's."""
    folder = tmp_path_factory.mktemp("garak")
    (folder / "garak").mkdir()
    (folder / "garak" / "__init__.py").write_text("", "utf-8")
    (folder / "garak" / "probes.py").write_text("class Probe:\n    prompts = ()\n", "utf-8")
    command = [sys.executable, "-c", LISTED, str(PROBES)]
    found: dict[str, tuple[str, bool, list[str]]] = json.loads(
        subprocess.run(command, capture_output=True, check=True, timeout=60, env={"PYTHONPATH": str(folder)}).stdout
    )
    return found


def generate(options: dict[str, Any], base: str, key: str, prompt: str) -> str | None:
    """The output of the generator for one prompt; None if it is skipped."""
    template = json.dumps(options["req_template_json_object"])
    headers = {name: value.replace("$KEY", key) for name, value in options["headers"].items()}
    response = httpx.request(
        options["method"].upper(),
        options["uri"].replace("http://127.0.0.1:8080", base),
        content=template.replace("$INPUT", json.dumps(prompt)[1:-1]).encode(),
        headers=headers,
        timeout=60,
    )
    if response.status_code in options.get("skip_codes", ()):
        return None
    assert response.status_code == 200, response.text
    value, field = response.json(), options["response_json_field"]
    return str(value["choices"][0]["message"]["content"] if field.startswith("$.choices[*]") else value[field])


@pytest.mark.parametrize("options", [SCAN, INLINE], ids=["scan", "inline"])
def test_the_options_are_those_that_the_generator_documents(options: dict[str, Any]) -> None:
    """And none has its key in the file."""
    assert set(options) <= OPTIONS
    assert "$INPUT" in json.dumps(options["req_template_json_object"])
    assert any("$KEY" in value for value in options["headers"].values())


def test_no_probe_runs_unless_it_is_named(probes: dict[str, tuple[str, bool, list[str]]]) -> None:
    """They are not active, and have the detectors of garak that read verdicts."""
    assert {name: each[:2] for name, each in probes.items()} == {
        "Attacks": ["shields.Up", False],
        "Harmless": ["shields.Down", False],
    }


@pytest.mark.parametrize(("probe", "begins"), [("Attacks", "block"), ("Harmless", "allow")])
def test_the_scan_api_gives_what_the_detectors_look_for(
    guard: SidecarProcess, probes: dict[str, tuple[str, bool, list[str]]], probe: str, begins: str
) -> None:
    """`shields.Up` counts an output that does not begin with `block`, `shields.Down` one without `allow`."""
    key = guard.new_key("garak")["key"]
    prompts = probes[probe][2]
    outputs = {prompt: generate(SCAN, guard.base, key, prompt) for prompt in prompts}
    assert [prompt for prompt, output in outputs.items() if not (output or "").startswith(begins)] == []
    assert len(outputs) > 5


def test_the_proxy_gives_outputs_for_harmless_prompts_alone(
    guard: SidecarProcess, probes: dict[str, tuple[str, bool, list[str]]]
) -> None:
    """A refused prompt is skipped; the others have the model's answer, with quotes and letters as they were."""
    attacks = [generate(INLINE, guard.base, "sk-none", prompt) for prompt in probes["Attacks"][2]]
    harmless = [generate(INLINE, guard.base, "sk-none", prompt) for prompt in probes["Harmless"][2]]
    assert set(attacks) == {None}
    assert all(prompt in (output or "") for prompt, output in zip(probes["Harmless"][2], harmless, strict=True))
