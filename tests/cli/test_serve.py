"""Twin of sidecar/cli/serve.py: real processes, from the first start to the last."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import time
from pathlib import Path

import click
import httpx2 as httpx
import pytest
import yaml
from cli.test_main import sidecar
from support import ONE_RULE, RULES_ONLY, SidecarProcess, StartSidecar, clean_environment

from sidecar.cli import serve


def test_the_first_start_prints_a_key_and_lines_that_work_as_printed(start_sidecar: StartSidecar) -> None:
    """Paste the three printed lines: each does what it promises; a second start prints no key, and how to get one."""
    running = start_sidecar(RULES_ONLY)
    pasted = lines_to_paste(running)
    assert len(pasted) == 3, running.output
    curl, sdk, scan = (run_line(line, running) for line in pasted)
    assert json.loads(curl.stdout)["action"] == "block"
    assert "Hello there" in sdk.stdout, sdk.stderr
    assert (scan.returncode, "block" in scan.stdout) == (1, True)
    running.stop()
    before = running.output.count("psk_")
    running.start()
    deadline = time.monotonic() + 60
    while "keys create NAME" not in running.output and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "keys create NAME" in running.output
    assert running.output.count("psk_") == before


def lines_to_paste(running: SidecarProcess) -> list[str]:
    """The printed commands, waited for: the greeting follows the readiness."""
    deadline = time.monotonic() + 30
    commands: list[str] = []
    while len(commands) < 3 and time.monotonic() < deadline:
        lines = running.output.splitlines()
        commands = [line for line in lines if line.startswith(("curl", "/", "sidecar", ".venv", "python"))]
        time.sleep(0.05)
    return commands


def run_line(line: str, running: SidecarProcess) -> subprocess.CompletedProcess[str]:
    """Run a line as a shell would."""
    return subprocess.run(
        shlex.split(line),
        capture_output=True,
        text=True,
        cwd=running.folder,
        env={**clean_environment(), "SIDECAR__LAYERS__SEMANTIC__ENABLED": "false"},
        timeout=60,
        check=False,
    )


def test_ports_in_use_end_the_start_before_anything_is_loaded(home: Path, tmp_path: Path) -> None:
    """Exit code 2, each port with its setting, and no rule or model was loaded for it."""
    with socket.create_server(("127.0.0.1", 0)) as data, socket.create_server(("127.0.0.1", 0)) as admin:
        ports = [listener.getsockname()[1] for listener in (data, admin)]
        settings = {"listen": {"port": ports[0]}, "admin": {"port": ports[1]}, "policies": [str(tmp_path / "absent")]}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        done = sidecar(home, "serve", "--config", str(tmp_path / "config.yaml"))
    assert (done.returncode, "absent" in done.stderr) == (2, False)
    assert f"listen.port: 127.0.0.1:{ports[0]}: Address already in use" in done.stderr
    assert f"admin.port: 127.0.0.1:{ports[1]}: Address already in use" in done.stderr


def test_a_start_says_what_it_is_before_it_reads_rules_and_models(home: Path, tmp_path: Path) -> None:
    """Loading takes seconds: version, upstream, mode and settings file are told before."""
    settings = {"listen": {"port": 0}, "admin": {"port": 0}, "policies": [str(tmp_path / "absent")]}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    done = sidecar(home, "serve", "--config", str(tmp_path / "c.yaml"))
    assert (done.returncode, "absent" in done.stderr) == (2, True)
    (line,) = (line for line in (done.stdout + done.stderr).splitlines() if "start_begun" in line)
    assert all(word in line for word in ("mode=enforce", "upstream=echo://", str(tmp_path / "c.yaml"), "version="))


@pytest.mark.parametrize("option", ["port", "host"])
def test_an_address_as_an_option_is_told_to_be_a_setting(home: Path, option: str) -> None:
    """The error has the variable to write, with the value that was given."""
    done = sidecar(home, "serve", f"--{option}", "9000")
    assert (done.returncode, f"SIDECAR__LISTEN__{option.upper()}=9000" in done.stderr) == (2, True)


def test_the_image_prints_no_credential_into_its_log() -> None:
    """A container's log is kept and collected: its command switches the first key and the first link off."""
    dockerfile = (Path(__file__).parents[2] / "Dockerfile").read_text("utf-8")
    assert 'CMD ["serve", "--no-first-key"]' in dockerfile


@pytest.mark.parametrize(("value", "number"), [("1", 1), ("64", 64), (1, 1), ("auto", 3)])
def test_a_number_of_workers_or_auto(monkeypatch: pytest.MonkeyPatch, value: object, number: int) -> None:
    """`auto` is the number of processors, at most as many as can be named."""
    monkeypatch.setattr(serve, "available", lambda: 3)
    assert serve.Workers().convert(value, None, None) == number
    monkeypatch.setattr(serve, "available", lambda: 200)
    assert serve.Workers().convert("auto", None, None) == serve.MAX_WORKERS


@pytest.mark.parametrize("value", ["0", "65", "many", "AUTO", "1.5"])
def test_another_number_of_workers_is_a_clear_error(value: str) -> None:
    """It names what may be given."""
    with pytest.raises(click.BadParameter, match=f"'{value}' is neither a number from 1 to 64 nor auto"):
        serve.Workers().convert(value, None, None)


def test_serve_ends_with_0_on_sigterm(start_sidecar: StartSidecar) -> None:
    """A polite stop is no error, and nothing listens afterwards."""
    running = start_sidecar(ONE_RULE)
    assert running.stop() == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(running.base + "/health")
    assert "Traceback" not in running.output
