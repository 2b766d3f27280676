"""The Compose file and the release workflow: they fit to this repository, and publish nothing by accident."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import sidecar
from sidecar import config

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_mounted_file_exists_and_every_volume_and_secret_is_declared() -> None:
    """A missing file would be made a folder by Docker."""
    for service in SERVICES.values():
        for source, target, *_ in (mount.split(":") for mount in service.get("volumes", [])):
            assert target.startswith("/")
            assert (FOLDER / source).is_file() if source.startswith(".") else source in COMPOSE["volumes"]
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])


def test_the_sidecars_variables_are_settings(tmp_path: Path) -> None:
    """With its secrets as files, as Docker mounts them; it listens where the ports lead."""
    variables = dict(SERVICES["sidecar"]["environment"])
    variables["SIDECAR__UPSTREAM__URL"] = variables["SIDECAR__UPSTREAM__URL"].partition(":-")[2].rstrip("}")
    (tmp_path / "url").write_text("postgresql://sidecar:x@postgres/sidecar", "utf-8")
    (tmp_path / "c.yaml").write_text("", "utf-8")
    named = {variables["SIDECAR__STORE__URL_FILE"], variables["SIDECAR__UPSTREAM__API_KEY_FILE"]}
    assert named == {f"/run/secrets/{name}" for name in SERVICES["sidecar"]["secrets"]}
    settings = config.load(tmp_path / "c.yaml", variables | {"SIDECAR__STORE__URL_FILE": str(tmp_path / "url")})
    ports = {int(port.rsplit(":", 1)[1]) for port in SERVICES["sidecar"]["ports"]}
    assert ports == {settings.listen.port, settings.admin.port}
    assert SERVICES["sidecar"]["stop_grace_period"] == "90s"
    assert settings.drain.timeout < 90


def test_no_port_is_open_to_the_network() -> None:
    """The dashboard, Prometheus and Grafana are for this machine."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_image_is_that_of_this_version_and_prometheus_finds_it() -> None:
    """The job is the service's name and admin port, and the rules are where the file is mounted."""
    assert SERVICES["sidecar"]["image"] == f"prompt-sidecar:{sidecar.__version__}"
    prometheus = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    assert prometheus["scrape_configs"][0]["static_configs"] == [{"targets": ["sidecar:8081"]}]
    mounted = {mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"]}
    assert set(prometheus["rule_files"]) <= mounted
    (provider,) = yaml.safe_load((FOLDER / "grafana" / "dashboards.yaml").read_text("utf-8"))["providers"]
    assert any(mount.split(":")[1].startswith(provider["options"]["path"]) for mount in SERVICES["grafana"]["volumes"])


def test_the_guide_makes_every_secret_and_none_without_a_key(tmp_path: Path) -> None:
    """With `OPENAI_API_KEY` unset the line says so, and writes no empty file that the sidecar would refuse."""
    guide = (ROOT / "docs" / "compose.md").read_text("utf-8")
    lines = [line for line in guide.splitlines() if "> secrets/" in line]
    assert {line.rpartition("/")[2] for line in lines} == {*COMPOSE["secrets"]}
    (tmp_path / "secrets").mkdir()
    (line,) = (line for line in lines if line.endswith("upstream-key"))
    for value, made in ((None, None), ("", None), ("sk-x", "sk-x")):
        environ = {"PATH": "/usr/bin:/bin"} | ({"OPENAI_API_KEY": value} if value is not None else {})
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environ, capture_output=True, check=False)
        file = tmp_path / "secrets" / "upstream-key"
        assert (file.read_text("utf-8") if file.exists() else None) == made
        assert b"is not set" in done.stderr or made


def test_docker_reads_the_file() -> None:
    """By its own parser, where Docker Compose is installed; the secrets need not exist for that."""
    command = next((name for name in ("docker-compose", "docker") if shutil.which(name)), None)
    words = [command, *(["compose"] if command == "docker" else [])] if command else []
    version = subprocess.run([*words, "version"], capture_output=True, check=False) if words else None
    if version is None or version.returncode:
        pytest.skip("Docker Compose is not installed")
    read = subprocess.run([*words, "-f", str(FOLDER / "compose.yaml"), "config"], capture_output=True, check=False)
    assert read.returncode == 0, read.stderr.decode()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_every_action_by_its_commit(path: Path) -> None:
    """With the version as a comment; a tag may be moved. No job has more rights than it names."""
    text = path.read_text("utf-8")
    used = re.findall(r"uses: (.*)", text)
    assert used
    for line in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    described = yaml.safe_load(text)
    assert described["permissions"] == {}
    assert all("permissions" in job for job in described["jobs"].values())
    assert all(
        step["with"]["persist-credentials"] is False
        for job in described["jobs"].values()
        for step in job["steps"]
        if "checkout" in step.get("uses", "")
    )


def test_a_release_begins_with_the_tests_and_only_from_a_tag() -> None:
    """Everything that publishes waits for them, and needs the environment that a person approves."""
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    assert release[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}
    jobs = release["jobs"]
    for name, job in jobs.items():
        writes = {right for right, level in job["permissions"].items() if level == "write"} & {"packages", "contents"}
        assert name == "test" or job["needs"]
        assert job.get("environment") == "release" if writes or name == "pypi" else True
