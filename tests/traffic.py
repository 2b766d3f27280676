"""Scans whole requests as the inline door does, for tests on what it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sidecar.config import Settings
from sidecar.evaluation import Outcome, Row, UnitScanner
from sidecar.evaluation.rows import row
from sidecar.runtime.builder import open_scanner
from sidecar.types import Action, LayerName, Verdict

BLOCK = Verdict(0.9, Action.BLOCK, (), 1, LayerName.RULES)


def rows(values: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """As `sidecar eval` reads them."""
    yield from (row(value, number) for number, value in enumerate(values, 1))


async def outcomes(values: Iterable[Mapping[str, Any]], settings: Settings) -> list[Outcome]:
    """What becomes of each, one after another."""
    async with open_scanner(settings, selftests=False) as built:
        scanner = UnitScanner(built.engine.scan, settings)
        return [await scanner.outcome(one) for one in rows(values)]


def refused(found: Iterable[Outcome]) -> list[str]:
    """Each unit that did not pass, with cause and place."""
    return [
        f"{one.row.id}: {one.cause} at {one.verdict.path} ({one.verdict.risk_score})"
        for one in found
        if one.blocked or one.unscanned
    ]
