"""The workflow of a release: no run has proven it yet, so its steps run here, and its jobs fit together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import sidecar

ROOT = Path(__file__).parent.parent
PLACES = ("charts/prompt-sidecar/Chart.yaml", "charts/prompt-sidecar/values.yaml", "sidecar/__init__.py", "Dockerfile")
WORKFLOWS = [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "integrations" / "github-action" / "action.yml"]
JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]


def steps(job: str, action: str) -> list[dict[str, Any]]:
    """The steps of a job that use this action."""
    return [step for step in JOBS[job]["steps"] if step.get("uses", "").startswith(f"{action}@")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that name the version."""
    for place in PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    return tmp_path


def run(job: str, start: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The step of a job whose name starts so, as a runner would run it."""
    (script,) = (step["run"] for step in JOBS[job]["steps"] if step.get("name", "").startswith(start))
    environment = {**os.environ, "GITHUB_OUTPUT": str(folder / "output"), **variables}
    command = ["bash", "-e", "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_tag_is_the_version_of_everything(tree: Path) -> None:
    """Without its `v` it is the version of the image and of the chart."""
    assert run("test", "The tag", tree, TAG=f"v{sidecar.__version__}").returncode == 0
    assert (tree / "output").read_text("utf-8") == f"version={sidecar.__version__}\n"
    assert run("test", "The tag", tree, TAG="v9.9.9").returncode == 1
    (push,) = steps("image", "docker/build-push-action")
    assert push["with"]["tags"] == "${{ env.IMAGE }}:${{ needs.test.outputs.version }}"


@pytest.mark.parametrize("place", [place for place in PLACES if "values" not in place])
def test_a_version_that_differs_ends_the_release(tree: Path, place: str) -> None:
    """It names all of them."""
    path = tree / place
    path.write_text(path.read_text("utf-8").replace(sidecar.__version__, "9.9.9"), "utf-8")
    refused = run("test", "The tag", tree, TAG=f"v{sidecar.__version__}")
    assert (refused.returncode, "9.9.9" in refused.stderr) == (1, True)


def test_the_released_chart_names_the_released_image(tree: Path) -> None:
    """By version and digest; a chart without the line ends the release."""
    image = f"ghcr.io/owner/prompt-sidecar:{sidecar.__version__}@sha256:{'0' * 64}"
    assert run("chart", "The chart's image", tree, IMAGE=image).returncode == 0
    values = tree / "charts" / "prompt-sidecar" / "values.yaml"
    assert yaml.safe_load(values.read_text("utf-8"))["image"] == image
    values.write_text("{}", "utf-8")
    assert run("chart", "The chart's image", tree, IMAGE=image).returncode == 1


def test_every_download_names_an_artifact_of_the_release() -> None:
    """All of them together would be more than what the steps before have put there."""
    uploaded = {step["with"]["name"] for job in JOBS for step in steps(job, "actions/upload-artifact")}
    loaded = [step["with"].get("name") for job in JOBS for step in steps(job, "actions/download-artifact")]
    assert loaded
    assert set(loaded) <= uploaded
    (push,) = steps("image", "docker/build-push-action")
    assert push["env"] == {"DOCKER_BUILD_RECORD_UPLOAD": "false"}


def test_a_job_waits_for_the_jobs_whose_results_it_takes() -> None:
    """A result of another job is empty."""
    for name, job in JOBS.items():
        needs = job.get("needs", [])
        taken = re.findall(r"needs\.(\w+)\.outputs\.(\w+)", str(job))
        assert {other for other, _ in taken} <= set([needs] if isinstance(needs, str) else needs), name
        assert all(result in JOBS[other]["outputs"] for other, result in taken), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_its_commit(path: Path) -> None:
    """A tag can be moved."""
    used = re.findall(r"uses: (\S+)", path.read_text("utf-8"))
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/.-]+@[0-9a-f]{40}", action)] == []
