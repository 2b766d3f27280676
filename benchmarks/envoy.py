"""Latency that the sidecar adds to a chat through Envoy: `ext_authz` over gRPC, and `ext_proc`, in one run.

Starts an upstream that answers at once, two sidecars with rules only (the second one scans responses), and four
Envoys: without a filter, with the check, with `ext_proc` for the request alone, and for both bodies. The same chats go
to each in interleaved rounds of random order, as in `benchmarks.proxy`. Needs the Envoy of `make neighbours`, or
`--envoy PROGRAM`.

    python -m benchmarks.envoy [--rounds 7] [--requests 40] [--size 1000] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from benchmarks.proxy import Target, check_blocked, free_port, measure, start_upstream, wait_for

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "docs" / "recipes"
ENVOY = ROOT / "build" / "neighbours" / "bin" / "envoy"
NAMES = ("Envoy alone", "ext_authz", "ext_proc, request", "ext_proc, both")


def blocks(recipe: str) -> list[dict[str, Any]]:
    """The blocks of YAML in a recipe."""
    found = re.findall(r"```yaml\n(.*?)```", (RECIPES / recipe).read_text("utf-8"), re.DOTALL)
    return [yaml.safe_load(block) for block in found]


def envoy_config(name: str, ports: dict[int, int]) -> str:
    """The recipes' configuration with the filter of this name, and `ports` for those in the recipes."""
    whole, check, cluster = blocks("envoy.md")
    processing = blocks("envoy-processing.md")[0]
    if name == "ext_proc, request":
        processing["typed_config"]["processing_mode"] |= {"response_body_mode": "NONE", "response_trailer_mode": "SKIP"}
    manager = whole["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    router = manager["http_filters"][-1]
    filters = {"Envoy alone": [], "ext_authz": [check]}.get(name, [processing])
    manager["http_filters"] = [*filters, router]
    whole["static_resources"]["clusters"][0] = cluster
    text = yaml.safe_dump(whole)
    for known, real in ports.items():
        text = text.replace(f"port_value: {known}\n", f"port_value: {real}\n")
    return text


def start_sidecar(folder: Path, ports: tuple[int, int], responses: str) -> subprocess.Popen[bytes]:
    """A sidecar with rules only, on these ports for HTTP and gRPC."""
    settings = {
        "listen": {"port": ports[0], "grpc_port": ports[1]},
        "admin": {"port": 0},
        "compat": {"envoy": True},
        "layers": {"semantic": {"enabled": False}},
        "store": {"url": f"sqlite:///{folder}/{ports[0]}.db"},
        "log": {"format": "json"},
        "responses": responses,
    }
    config = folder / f"{ports[0]}.yaml"
    config.write_text(yaml.safe_dump(settings), "utf-8")
    return _start([sys.executable, "-m", "sidecar", "serve", "--config", config], folder, str(ports[0]))


def _start(command: list[str | Path], folder: Path, name: str) -> subprocess.Popen[bytes]:
    log = (folder / f"{name}.log").open("wb")
    return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


async def run(program: Path, rounds: int, requests: int, size: int) -> dict[str, list[float]]:
    """Median seconds of each round, by target."""
    model, plain, scanning = free_port(), (free_port(), free_port()), (free_port(), free_port())
    targets, ready = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = [start_upstream(model)]
        try:
            processes += [start_sidecar(folder, plain, "off"), start_sidecar(folder, scanning, "block")]
            for number, target in enumerate(NAMES):
                port, admin, grpc = free_port(), free_port(), (scanning if number == 3 else plain)[1]
                config = folder / f"envoy{number}.yaml"
                config.write_text(envoy_config(target, {10000: port, 9901: admin, 8000: model, 9191: grpc}), "utf-8")
                command = [program, "-c", config, "--use-dynamic-base-id", "--concurrency", "1"]
                processes.append(_start(command, folder, f"envoy{number}"))
                targets.append(Target(target, f"http://127.0.0.1:{port}"))
                ready.append(f"http://127.0.0.1:{admin}/ready")
            async with aiohttp.ClientSession() as session:
                for url in (f"http://127.0.0.1:{model}/count", *ready):
                    await wait_for(session, url)
                for port, _ in (plain, scanning):
                    await wait_for(session, f"http://127.0.0.1:{port}/health")
            medians = await measure(targets, size, rounds, requests)
            await check_blocked(targets)
            return medians
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def summary(medians: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Added ms to Envoy alone, and the added time as a multiple of the check's: median, least and most over rounds."""
    alone, check = medians[NAMES[0]], medians[NAMES[1]]
    rows = {}
    for name in NAMES[1:]:
        added = [value - base for value, base in zip(medians[name], alone, strict=True)]
        checks = [value - base for value, base in zip(check, alone, strict=True)]
        ratio = sorted(mine / theirs for mine, theirs in zip(added, checks, strict=True))
        rows[name] = {
            "added_ms": round(statistics.median(added) * 1000, 2),
            "to_ext_authz": [round(value, 2) for value in (statistics.median(ratio), ratio[0], ratio[-1])],
        }
    return rows


def main() -> None:
    """Arguments in, figures out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--envoy", type=Path, default=ENVOY)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    rows = summary(asyncio.run(run(chosen.envoy, chosen.rounds, chosen.requests, chosen.size)))
    if chosen.json:
        print(json.dumps(rows, indent=1))
        return
    for name, row in rows.items():
        median, least, most = row["to_ext_authz"]
        print(f"{name:18} added {row['added_ms']:7.2f} ms, {median:5.2f} times ext_authz ({least:.2f} to {most:.2f})")


if __name__ == "__main__":
    main()
