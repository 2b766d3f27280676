"""Tests of the health of dependencies: what is told, counted and probed. Real ones are in runtime/test_app.py."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sidecar.observability.dependencies import Health, dependencies
from sidecar.observability.metrics import DEPENDENCIES, REGISTRY
from sidecar.types import Dependency
from sidecar.util import logs


@dataclass
class Part:
    """A dependency that is found as `found` says when it is probed."""

    problem: str | None = None
    found: str | None = None
    probes: int = 0

    async def probe(self) -> None:
        """Note what is found."""
        self.probes += 1
        self.problem = self.found


def up(name: str) -> float | None:
    """The gauge, as a scrape computes it."""
    return REGISTRY.get_sample_value("sidecar_dependency_up", {"dependency": name})


async def test_a_probe_finds_trouble_and_its_end() -> None:
    """Gauges and problems follow at once; the same problem of two parts is told once."""
    store, cache, limits = Part(), Part(), Part()
    parts: list[tuple[str, Dependency]] = [("store", store), ("redis", cache), ("redis", limits)]
    health = Health(lambda: parts)
    assert health.problems() == []
    cache.found = limits.found = "Redis does not answer"
    await health.probe()
    assert health.problems() == ["Redis does not answer"]
    assert {name: up(name) for name in DEPENDENCIES} == {"store": 1, "redis": 0, "judge": None, "upstream": None}
    cache.found = None
    await health.probe()
    assert (up("redis"), health.problems()) == (0, ["Redis does not answer"])
    limits.found = None
    await health.probe()
    assert (up("redis"), health.problems(), store.probes) == (1, [], 3)


async def test_trouble_and_its_end_are_each_one_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Not one for each probe, whatever the reason is meanwhile."""
    logs.configure("json", "info")
    part = Part(found="the file was moved")
    health = Health(lambda: [("store", part)])
    for reason in ("the file was moved", "the file was replaced", None, None):
        part.found = reason
        await health.probe()
    output = "".join(capsys.readouterr())
    assert (output.count("dependency_lost"), output.count("dependency_back")) == (1, 1)
    assert "the file was moved" in output


async def test_the_parts_are_those_in_use_now() -> None:
    """After a reload only the new parts count."""
    current: list[tuple[str, Dependency]] = [("judge", Part("wrong key"))]
    health = Health(lambda: current)
    assert up("judge") == 0
    current = [("judge", Part())]
    assert (up("judge"), health.problems()) == (1, [])
    current = []
    assert up("judge") is None


def test_parts_without_anything_outside_are_left_out() -> None:
    """A limiter in memory has no health."""
    part = Part()
    assert dependencies(("store", part), ("redis", object()), ("upstream", None)) == (("store", part),)
