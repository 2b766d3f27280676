"""Scans complete requests like the inline proxy, for tests of what it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sidecar.config import Settings
from sidecar.evaluation import Outcome, Row, UnitScanner
from sidecar.evaluation.rows import row
from sidecar.runtime.builder import open_scanner
from sidecar.scan.service import ScanService
from sidecar.types import Action, LayerName, Verdict

BLOCK = Verdict(0.9, Action.BLOCK, (), 1, LayerName.RULES)


def rows(values: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Rows as read by `sidecar eval`."""
    yield from (row(value, number) for number, value in enumerate(values, 1))


async def outcomes(values: Iterable[Mapping[str, Any]], settings: Settings) -> list[Outcome]:
    """The outcome of each row, scanned sequentially."""
    async with open_scanner(settings, selftests=False) as built:
        scanner = UnitScanner(ScanService(built.engine, settings).scan, settings)
        return [await scanner.outcome(request) for request in rows(values)]


def refused(outcomes: Iterable[Outcome]) -> list[str]:
    """Each row that did not pass, with cause and path."""
    return [
        f"{outcome.row.id}: {outcome.cause} at {outcome.verdict.path} ({outcome.verdict.risk_score})"
        for outcome in outcomes
        if outcome.blocked or outcome.unscanned
    ]
