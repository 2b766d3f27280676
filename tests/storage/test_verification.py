"""Twin of sidecar/storage/verification.py: what somebody does to the rows behind the chain's back is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from dashboard import log_row
from sqlalchemy import ColumnElement, Executable, and_, delete, update

from sidecar.storage import Event, Store
from sidecar.storage.schema import audit, checkpoints, decisions
from sidecar.storage.verification import Report, Verification, lines
from sidecar.util.signatures import read_key

SIGNER = read_key(b"s" * 32)
IDS = [log_row(number).id for number in range(6)]


@pytest.fixture
async def sealed(store_url: str) -> AsyncIterator[Store]:
    """A store with six decisions in two checkpoints, and three events."""
    store = await Store.open(store_url, signer=SIGNER)
    now = datetime.now(UTC)
    await store.decisions.add([log_row(number, at=now + timedelta(seconds=number)) for number in range(3)])
    await store.decisions.add([log_row(number, at=now + timedelta(seconds=number)) for number in range(3, 6)])
    for action in ("key_created", "key_changed", "key_revoked"):
        await store.audit.add(Event(now, "ada", "", action))
    yield store
    await store.close()


async def tamper(store: Store, *statements: Executable) -> None:
    """Change the database behind the sidecar's back."""
    async with store._database.write() as connection:
        for statement in statements:
            await connection.execute(statement)


def link(number: int) -> ColumnElement[bool]:
    """A checkpoint over the scan log."""
    return and_(checkpoints.c.chain == "decisions", checkpoints.c.number == number)


def row(number: int) -> ColumnElement[bool]:
    """A decision."""
    return decisions.c.id == IDS[number]


async def verify(store: Store, known: tuple[int, str] | None = None) -> Report:
    """The report on the scan log."""
    return await Verification(store.checkpoints, decisions, SIGNER).run(known)


async def test_an_untouched_store_has_no_problem(sealed: Store) -> None:
    """All rows of both tables are covered."""
    report = await verify(sealed)
    trail = await Verification(sealed.checkpoints, audit, SIGNER).run()
    assert (report.problems, report.rows, report.uncovered, report.number) == ([], 6, 0, 3)
    assert (trail.problems, trail.rows) == ([], 3)
    assert list(lines(report)) == ["decisions: 6 rows in 3 checkpoints, up to number 3"]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (update(decisions).where(row(1)).values(action="allow"), f"row {IDS[1]}: changed"),
        (delete(decisions).where(row(4)), f"row {IDS[4]}: deleted"),
        (update(checkpoints).where(link(2)).values(body="{}"), "checkpoint 2: changed, its signature does not hold"),
        (delete(checkpoints).where(link(2)), "checkpoints 2 to 2: deleted"),
        (delete(checkpoints).where(link(1)), "checkpoints before 2: deleted, and no pruning says so"),
        (delete(checkpoints), "there are no checkpoints"),
        (update(checkpoints).where(link(2)).values(body="[]"), "checkpoint 2: not readable"),
        (update(checkpoints).where(link(2)).values(body='{"rows": [["a"]]}'), "checkpoint 2: not readable"),
        (
            update(decisions).where(row(1)).values(id="x[/x]\x1b[2K"),
            "row x[/x]\N{REPLACEMENT CHARACTER}[2K: inserted, no checkpoint names it",
        ),
    ],
)
async def test_a_row_that_was_changed_or_deleted_is_named(sealed: Store, statement: Executable, problem: str) -> None:
    """So is a checkpoint."""
    await tamper(sealed, statement)
    assert any(each.startswith(problem) for each in (await verify(sealed)).problems)


async def test_an_inserted_row_is_named(sealed: Store) -> None:
    """One that a writer without the key added; one from before the first checkpoint is only counted."""
    sealed.checkpoints.signer = None
    await sealed.decisions.add([log_row(7, at=datetime.now(UTC) + timedelta(minutes=1))])
    await sealed.decisions.add([log_row(8, at=datetime.now(UTC) - timedelta(days=9))])
    report = await verify(sealed)
    assert (report.problems, report.uncovered) == ([f"row {log_row(7).id}: inserted, no checkpoint names it"], 1)


async def test_reordered_rows_are_named(sealed: Store) -> None:
    """Two events that changed places are two problems, each with the other's id."""
    await tamper(
        sealed,
        update(audit).where(audit.c.action == "key_created").values(id=99),
        update(audit).where(audit.c.action == "key_changed").values(id=1),
        update(audit).where(audit.c.id == 99).values(id=2),
    )
    report = await Verification(sealed.checkpoints, audit, SIGNER).run()
    assert report.problems == ["row 1: reordered, it holds what 2 held", "row 2: reordered, it holds what 1 held"]


async def test_another_key_is_named(sealed: Store) -> None:
    """Checkpoints of somebody else are no substitute: the key is missing."""
    report = await Verification(sealed.checkpoints, decisions, read_key(b"t" * 32)).run()
    assert report.problems[0] == f"checkpoint 1: signed by another key ({SIGNER.name})"


async def test_what_retention_deleted_is_no_problem(sealed: Store) -> None:
    """Rows of a checkpoint that stays are counted; a row after the horizon that is gone is still named."""
    kept = await sealed.decisions.get(IDS[4])
    assert kept
    await sealed.decisions.purge(kept.at)
    report = await verify(sealed)
    assert (report.problems, report.rows, report.pruned) == ([], 2, 1)
    await tamper(sealed, delete(decisions).where(row(5)))
    assert (await verify(sealed)).problems == [f"row {IDS[5]}: deleted"]


async def test_an_end_that_is_cut_off_is_found_by_an_earlier_head(sealed: Store) -> None:
    """Without one the shorter chain is whole: this is said to be not covered."""
    before = await verify(sealed)
    await tamper(sealed, delete(checkpoints).where(link(3)), delete(decisions).where(decisions.c.id.in_(IDS[3:])))
    assert (await verify(sealed)).problems == []
    after = await verify(sealed, (before.number, before.head))
    assert after.problems == ["checkpoints 3 to 3: deleted, an earlier run saw them"]


async def test_a_chain_that_begins_with_rows_lacks_its_beginning(sealed: Store) -> None:
    """Checkpoints deleted under a running server: its next write is number 1, and is no beginning."""
    await tamper(sealed, delete(checkpoints))
    await sealed.decisions.add([log_row(9)])
    assert "checkpoint 1: is no beginning, those before it were deleted" in (await verify(sealed)).problems
