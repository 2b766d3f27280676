"""What stands around `sidecar scan`: the GitHub Action and the hooks for pre-commit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from sidecar.file_scan.discovery import find_files
from sidecar.file_scan.walk import AGENT_FILES, AGENT_FOLDERS

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
    inputs = {"PATHS": "docs\nAGENTS.md  a.md\n", "AGENT_FILES": "false", "FAIL_ON": "hint", "CONFIG": "a b.yaml"}
    paths = ["docs", "AGENTS.md", "a.md"]
    code, arguments = run_step(tmp_path, 1, **inputs)
    assert code == 1
    assert arguments == ["scan", "--format", "sarif", "--fail-on", "hint", "--config", "a b.yaml", *paths]
    assert (tmp_path / "prompt-sidecar.sarif").exists()


def test_the_action_installs_its_own_checkout(tmp_path: Path) -> None:
    """With the locked versions; the package index is not asked for a name that anybody could take."""
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > arguments\n', "utf-8")
    program.chmod(0o755)
    (script,) = (step["run"] for step in ACTION["runs"]["steps"] if "pip install" in step.get("run", ""))
    place = ROOT / "integrations" / "github-action"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_ACTION_PATH": str(place)}
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True, timeout=60)
    *_, lock, project = (tmp_path / "arguments").read_text("utf-8").splitlines()
    assert Path(lock).samefile(ROOT / "requirements.lock")
    assert Path(project).samefile(ROOT)


def test_no_input_is_part_of_a_script() -> None:
    """Inputs come by the environment: one with a quote would end the line."""
    assert all("${{" not in step.get("run", "") for step in ACTION["runs"]["steps"])


AGENT_PATHS = [
    *(name.replace("*", "style") for name in AGENT_FILES),
    *(f"sub/{name.replace('*', 'style').upper()}" for name in AGENT_FILES),
    *(f"{prefix}{name}/sub/deploy.py" for name in sorted(AGENT_FOLDERS) for prefix in ("", "sub/")),
]


@pytest.mark.parametrize(
    "path",
    [*AGENT_PATHS, "README.md", "src/main.py", "docs/agents.md.txt", "mcp-notes.json", "my-skills/a.md", "rules"],
)
def test_the_hook_takes_what_agents_read(path: str, tmp_path: Path) -> None:
    """The same as `--agent-files`."""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    is_read = bool(re.search(HOOKS["sidecar-scan"]["files"], path))
    assert is_read == bool(find_files([tmp_path], agent_files=True)) == (path in AGENT_PATHS)


def test_the_hooks_scan_with_the_defaults() -> None:
    """An option that repeats one would be a second place to change."""
    assert {hook["entry"] for hook in HOOKS.values()} == {"sidecar scan"}
