"""Verifies the checkpoints of a chain against its table: which rows were changed, deleted, inserted or reordered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Integer, Table

from sidecar.storage.checkpoints import (
    BEGUN,
    PRUNED,
    ROWS,
    START,
    Checkpoint,
    Checkpoints,
    covered,
    micros,
    row_digest,
)
from sidecar.util import json
from sidecar.util.signatures import Signer

PAGE = 100
UNREADABLE = (ValueError, TypeError, ArithmeticError, AttributeError)
"""What values raise that nobody wrote through the store."""
MAX_PROBLEMS = 1_000
"""Problems that are listed; of further ones only their number is told."""


@dataclass
class Report:
    """What was found. `head`: the digest of the newest checkpoint, whose number is `number`.

    `uncovered`: rows that no checkpoint names, from before the first one or older than what retention deleted.
    `pruned`: rows of checkpoints that are still there, which were deleted by age or number.
    `begun_over`: rows that were in the table when the chain began, as its first checkpoint says.
    """

    chain: str
    checkpoints: int = 0
    rows: int = 0
    pruned: int = 0
    uncovered: int = 0
    begun_over: int = 0
    number: int = 0
    head: str = ""
    problems: list[str] = field(default_factory=list)
    unlisted: int = 0

    def add(self, problem: str) -> None:
        """A problem, without the control characters of what was read; beyond `MAX_PROBLEMS` it is only counted."""
        problem = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in problem)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        else:
            self.unlisted += 1


class Verification:
    """One run over one table. It reads pages, so that it can run beside a server that writes."""

    def __init__(self, checkpoints: Checkpoints, source: Table, signer: Signer) -> None:
        self._checkpoints, self._source, self._signer = checkpoints, source, signer
        self._report = Report(source.name)
        self._latest: Checkpoint | None = None
        self._first: Checkpoint | None = None
        self._pruned: dict[str, Any] = {}
        self._horizon = 0
        self._is_known = False
        self._absent: list[tuple[str, int]] = []
        self._ids: set[str] = set()
        self._changed: dict[str, str] = {}

    async def run(self, earlier: tuple[int, str] | None = None, *, accepts_rows: bool = False) -> Report:
        """Verify. `earlier`: number and digest of the head of an earlier run, which must be in the chain or pruned.

        `accepts_rows`: a chain may begin over rows. So does the first one of an old database, but also a new one that
        takes the place of a deleted one; a head of an earlier run in the chain shows that it is not new.
        """
        self._is_known = accepts_rows
        await self._follow(earlier)
        await self._find_inserted()
        self._check_start()
        await self._name_changed()
        for row_id, at in self._absent:
            if at < self._horizon:
                self._report.pruned += 1
            else:
                self._report.add(f"row {row_id}: deleted")
        if earlier and earlier[0] > self._report.number:
            self._report.add(f"checkpoints {self._report.number + 1} to {earlier[0]}: deleted, an earlier run saw them")
        return self._report

    async def _follow(self, earlier: tuple[int, str] | None = None) -> None:
        """Check the checkpoints that are new since the last call."""
        while page := await self._checkpoints.page(self._source.name, self._report.number, PAGE):
            for checkpoint in page:
                self._check_link(checkpoint)
                if earlier and earlier[0] == checkpoint.number:
                    self._check_seen(checkpoint, earlier[1])
                await self._check_body(checkpoint)
                self._first, self._latest = self._first or checkpoint, checkpoint
                self._report.checkpoints += 1
                self._report.number, self._report.head = checkpoint.number, checkpoint.digest

    def _check_seen(self, checkpoint: Checkpoint, digest: str) -> None:
        if digest == checkpoint.digest:
            self._is_known = True
        else:
            self._report.add(f"checkpoint {checkpoint.number}: not the one that an earlier run saw")

    def _check_link(self, checkpoint: Checkpoint) -> None:
        latest, name = self._latest, f"checkpoint {checkpoint.number}"
        if checkpoint.key != self._signer.name:
            self._report.add(f"{name}: signed by another key ({checkpoint.key})")
        elif not checkpoint.is_signed_by(self._signer):
            self._report.add(f"{name}: changed, its signature does not hold")
        if latest is not None and checkpoint.number != latest.number + 1:
            self._report.add(f"checkpoints {latest.number + 1} to {checkpoint.number - 1}: deleted")
        elif latest is not None and checkpoint.previous != latest.digest:
            self._report.add(f"{name}: does not follow checkpoint {latest.number}")

    async def _check_body(self, checkpoint: Checkpoint) -> None:
        try:
            body = json.loads(checkpoint.body)
            entries = list(covered(body))
            ids = [int(entry[0]) if self._has_numbers else entry[0] for entry in entries]
            count = int(body.get("count", 0))
        except UNREADABLE:
            self._report.add(f"checkpoint {checkpoint.number}: not readable")
            return
        if checkpoint.kind == PRUNED:
            self._pruned, self._horizon = body, max(self._horizon, checkpoint.latest)
        elif checkpoint.kind == BEGUN:
            self._report.begun_over = count
        elif checkpoint.kind == ROWS:
            self._check_rows(entries, await self._digests(ids))

    async def _digests(self, ids: Sequence[Any]) -> dict[str, str]:
        """The digests of these rows as they are now; that of a row whose values cannot be read is empty."""
        try:
            rows = await self._checkpoints.rows(self._source, ids)
            return {row_id: row_digest(self._source, row) for row_id, row in rows.items()}
        except UNREADABLE:
            if len(ids) == 1:
                return {str(ids[0]): ""}
        return {row_id: digest for one in ids for row_id, digest in (await self._digests([one])).items()}

    def _check_rows(self, entries: Sequence[tuple[str, str, int]], digests: Mapping[str, str]) -> None:
        for row_id, digest, at in entries:
            self._ids.add(row_id)
            if row_id not in digests:
                self._absent.append((row_id, at))
                continue
            self._report.rows += 1
            if digests[row_id] != digest:
                self._changed[row_id] = digests[row_id]

    async def _name_changed(self) -> None:
        """Rows with another content than theirs: that of another row, or a new one."""
        owners: dict[str, str] = {}
        number, digests = 0, set(self._changed.values())
        while digests and (page := await self._checkpoints.page(self._source.name, number, PAGE)):
            number = page[-1].number
            bodies = (json.loads(checkpoint.body) for checkpoint in page if checkpoint.is_signed_by(self._signer))
            owners |= {digest: row for body in bodies for row, digest, _ in covered(body) if digest in digests}
        for row_id, digest in self._changed.items():
            moved = f"reordered, it holds what {owners[digest]} held" if digest in owners else "changed"
            self._report.add(f"row {row_id}: {moved}")

    @property
    def _has_numbers(self) -> bool:
        return isinstance(self._source.c.id.type, Integer)

    def _check_start(self) -> None:
        first, report = self._first, self._report
        if first is None:
            report.add("there are no checkpoints")
        elif first.number == 1 and first.previous == START:
            self._check_beginning(first)
        elif (self._pruned.get("first"), self._pruned.get("follows")) != (first.number, first.previous):
            report.add(f"checkpoints before {first.number}: deleted, and no pruning says so")

    def _check_beginning(self, first: Checkpoint) -> None:
        if first.kind != BEGUN:
            self._report.add("checkpoint 1: is no beginning, those before it were deleted")
        elif self._report.begun_over and not self._is_known:
            count = self._report.begun_over
            self._report.add(f"checkpoint 1: begun over {count} rows; an earlier chain may have been deleted")

    async def _find_inserted(self) -> None:
        """Rows that no checkpoint names; those from before the first one are not covered."""
        try:
            suspects = [suspect async for suspect in self._unnamed()]
        except UNREADABLE:
            self._report.add("the time of a row is not readable, so that inserted rows could not be looked for")
            return
        await self._follow()
        start = micros(self._first.at) if self._first and self._first.number == 1 else 0
        for row_id, at in suspects:
            if row_id in self._ids:
                continue
            if at < max(start, self._horizon):
                self._report.uncovered += 1
            else:
                self._report.add(f"row {row_id}: inserted, no checkpoint names it")

    async def _unnamed(self) -> Any:
        after: Any = None
        while page := await self._checkpoints.ids(self._source, after, 10 * PAGE):
            after = page[-1][0]
            for row_id, at in page:
                if str(row_id) not in self._ids:
                    yield str(row_id), micros(at)


def lines(report: Report) -> Iterator[str]:
    """The report for people, without the problems."""
    yield f"{report.chain}: {report.rows} rows in {report.checkpoints} checkpoints, up to number {report.number}"
    if report.begun_over:
        yield f"{report.chain}: begun over {report.begun_over} rows, which were there before the first checkpoint"
    if report.pruned:
        yield f"{report.chain}: {report.pruned} rows of these were deleted by retention, and a checkpoint says so"
    if report.uncovered:
        reason = "from before the first checkpoint, or due to be deleted"
        yield f"{report.chain}: {report.uncovered} rows are not covered ({reason})"
