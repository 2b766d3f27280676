"""One run: start all processes, run every scene, check that it was fair, and store the figures.

    python -m benchmarks.speed [--rounds 7] [--litellm PROGRAM] [--nginx PROGRAM] [--json FILE] [--write]

Absolute figures belong to this machine; only the ratios of one run are comparable elsewhere. `--write` puts tables and
plots into docs/performance.md. The run stops with an error if a response is wrong, a client starves, an attack is not
blocked, or the upstream received another number of requests or bytes than were sent.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from benchmarks.speed import scenes
from benchmarks.speed.client import Tally
from benchmarks.speed.goals import FILTER, RULES, SEMANTIC, SINGLE_RULE, TWO, Results, goals
from benchmarks.speed.page import table, write
from benchmarks.speed.world import Target, World, proportional, resident

ONE_RULE = Path(__file__).parent.parent.parent / "tests" / "data" / "one_rule.yaml"


async def run(chosen: argparse.Namespace) -> Results:
    """All scenes."""
    async with World() as world:
        await world.prepare()
        direct, bare = world.upstream, await world.bare()
        rules = await world.sidecar(RULES)
        semantic = await world.sidecar(SEMANTIC, semantic=True)
        two = await world.sidecar(TWO, workers=2)
        single_rule = await world.sidecar(SINGLE_RULE, environ={"SIDECAR__POLICIES": json.dumps([str(ONE_RULE)])})
        peers = [await world.nginx(chosen.nginx)] if chosen.nginx else []
        if chosen.litellm:
            peers += [await world.litellm(chosen.litellm, guarded=guarded) for guarded in (False, True)]
        ours, everybody = [rules, semantic, two], [direct, bare, rules, semantic, two, single_rule, *peers]
        facts = {
            target.name: {"ready_s": target.ready, "resident_mb": resident(target.pid)} for target in everybody[1:]
        }
        guarded = [*ours, *(peer for peer in peers if peer.name == FILTER)]
        await _blocked(guarded)
        figures = await _inline([direct, bare, rules, single_rule], two, peers, chosen.rounds)
        figures |= await _other_scenes(direct, rules, semantic, chosen.rounds)
        await _blocked(guarded)
        for target in everybody[1:]:
            facts[target.name]["resident_after_mb"] = resident(target.pid)
            facts[target.name]["proportional_after_mb"] = proportional(target.pid)
        return {**_about(chosen.rounds), **figures, "processes": facts}


async def _inline(base: list[Target], two: Target, peers: list[Target], times: int) -> Results:
    """The inline proxy compared with the others. LiteLLM takes part where requests are small."""
    direct, quick = base[0], [*base, *(peer for peer in peers if not scenes.slow(peer))]
    figures: Results = {"latency": {}, "load": {}}
    for size in scenes.SIZES:
        targets = [*quick, *(peer for peer in peers if scenes.slow(peer))] if size == 1_000 else quick
        async with _Fair(direct, f"{size} characters", rewritten=len(targets) > len(quick)):
            figures["latency"][str(size)] = await scenes.latency(targets, times, size)
    async with _Fair(direct, "c=16", rewritten=bool(peers)):
        figures["load"]["16"] = await scenes.load([*base, *peers], times, 16)
    async with _Fair(direct, "c=64"):
        figures["load"]["64"] = await scenes.load([*quick, two], times, 64)
    async with _Fair(direct, "streams"):
        figures["streams"] = await scenes.streams(quick, times)
        figures["busy streams"] = await scenes.busy_streams(quick, min(times, 3))
    return figures


async def _other_scenes(direct: Target, rules: Target, semantic: Target, times: int) -> Results:
    """Scenes without a counterpart in other gateways."""
    async with _Fair(direct, "conversations"):
        grown = {target.name: await scenes.conversation(direct, target) for target in (rules, semantic)}
    return {
        "conversation": {name: {str(at): row for at, row in points.items()} for name, points in grown.items()},
        "scan API": await scenes.scan_api(rules, times),
        "semantic": await scenes.semantic(semantic, min(times, 3)),
    }


class _Fair:
    """Checks that every chat of a scene reached the upstream once and complete."""

    def __init__(self, direct: Target, scene: str, *, rewritten: bool = False) -> None:
        self._direct, self._scene, self._rewritten = direct, scene, rewritten
        self._before = (0, 0)
        self._begun = 0.0

    async def __aenter__(self) -> None:
        self._begun = time.monotonic()
        Tally.requests = Tally.body_bytes = 0
        self._before = await scenes.counted(self._direct)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        requests, size = await scenes.counted(self._direct)
        counted = requests - self._before[0], size - self._before[1]
        if counted[0] != Tally.requests or (counted[1] != Tally.body_bytes and not self._rewritten):
            raise SystemExit(f"{self._scene}: sent {Tally.requests} ({Tally.body_bytes} bytes), upstream saw {counted}")
        print(f"{self._scene}: {time.monotonic() - self._begun:.0f} s", file=sys.stderr)


async def _blocked(targets: list[Target]) -> None:
    """Check that an attack is blocked, so that the figures are those of a working scanner."""
    for target in targets:
        await scenes.attacks(target, 3)


def _about(rounds: int) -> Results:
    cores = len(os.sched_getaffinity(0))
    machine = (
        f"{cores} cores, load {os.getloadavg()[0]:.1f} before, {platform.system()}, Python {platform.python_version()}"
    )
    return {"date": datetime.now(UTC).date().isoformat(), "machine": machine, "rounds": rounds}


def main() -> None:
    """Arguments in, figures out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--litellm", type=Path, help="the program of LiteLLM's proxy")
    parser.add_argument("--nginx", type=Path, help="the program nginx")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--write", action="store_true", help="put tables and plots into docs/performance.md")
    chosen = parser.parse_args()
    chosen.litellm, chosen.nginx = (path and path.resolve() for path in (chosen.litellm, chosen.nginx))
    about = _about(chosen.rounds)
    figures = {**uvloop.run(run(chosen)), "machine": about["machine"]}
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1), "utf-8")
    if chosen.write:
        write(figures)
    print(table(["goal", "bound", "measured", "met"], [goal.row() for goal in goals(figures)]))


if __name__ == "__main__":
    main()
