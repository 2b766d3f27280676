"""What stands around `sidecar scan`: the GitHub Action and the hooks for pre-commit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "integrations" / "github-action" / "action.yml").read_text("utf-8"))
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}


def run_step(folder: Path, code: int, **inputs: str) -> tuple[int, list[str]]:
    """Run the last step with a stand-in for the command; returns exit code and arguments."""
    program = folder / "sidecar"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > arguments\nexit {code}\n', "utf-8")
    program.chmod(0o755)
    defaults = {name.upper().replace("-", "_"): str(one["default"]) for name, one in ACTION["inputs"].items()}
    environment = {**os.environ, **defaults, **inputs, "PATH": f"{folder}:{os.environ['PATH']}"}
    script = ACTION["runs"]["steps"][-1]["run"]
    done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment, check=False, timeout=60)
    return done.returncode, (folder / "arguments").read_text("utf-8").splitlines()


def test_the_action_passes_its_inputs_and_the_exit_code(tmp_path: Path) -> None:
    """The file of results is there even if the step fails."""
    assert run_step(tmp_path, 0)[1] == ["scan", "--format", "sarif", "--fail-on", "block", "--agent-files", "."]
    inputs = {"PATHS": "docs AGENTS.md", "AGENT_FILES": "false", "FAIL_ON": "hint", "CONFIG": "a b.yaml"}
    code, arguments = run_step(tmp_path, 1, **inputs)
    assert code == 1
    assert arguments == ["scan", "--format", "sarif", "--fail-on", "hint", "--config", "a b.yaml", "docs", "AGENTS.md"]
    assert (tmp_path / "prompt-sidecar.sarif").exists()


def test_no_input_is_part_of_a_script() -> None:
    """Inputs come by the environment: one with a quote would end the line."""
    assert all("${{" not in step.get("run", "") for step in ACTION["runs"]["steps"])


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("AGENTS.md", True),
        ("sub/claude.md", True),
        (".github/copilot-instructions.md", True),
        (".mcp.json", True),
        (".cursor/rules/style.mdc", True),
        ("skills/pdf/fill.py", True),
        (".cursorrules", True),
        ("README.md", False),
        ("src/main.py", False),
        ("docs/agents.md.txt", False),
    ],
)
def test_the_hook_takes_what_agents_read(path: str, is_read: bool) -> None:
    """The same as `--agent-files`."""
    assert bool(re.search(HOOKS["sidecar-scan"]["files"], path)) == is_read
    assert {hook["entry"] for hook in HOOKS.values()} == {"sidecar scan --fail-on block"}
