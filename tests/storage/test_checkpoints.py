"""Twin of sidecar/storage/checkpoints.py: every write of covered rows leaves a checkpoint in one chain."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from dashboard import log_row

from sidecar.errors import StoreConflict
from sidecar.storage import Event, Store
from sidecar.storage.checkpoints import BEGUN, PRUNED, ROWS, Checkpoint, row_digest
from sidecar.storage.schema import decisions
from sidecar.util.signatures import read_key

SIGNER = read_key(b"s" * 32)


async def chain(store: Store, name: str = "decisions") -> list[Checkpoint]:
    """All checkpoints of a chain."""
    return await store.checkpoints.page(name, 0, 1_000)


async def test_without_a_key_there_are_none(store: Store) -> None:
    """The default costs nothing: no row is read or written for it."""
    await store.decisions.add([log_row()])
    await store.audit.add(Event(datetime.now(UTC), "ada", "", "key_created"))
    assert await chain(store) == await chain(store, "audit") == []


async def test_each_write_is_one_link(store_url: str) -> None:
    """Numbered without gaps, each following the one before, signed; an event of the trail has its own chain."""
    store = await Store.open(store_url, signer=SIGNER)
    await store.decisions.add([log_row(1), log_row(2)])
    await store.decisions.add([log_row(2), log_row(3)])
    await store.audit.add(Event(datetime.now(UTC), "ada", "", "key_created"))
    links = await chain(store)
    assert [(link.number, link.kind) for link in links] == [(1, BEGUN), (2, ROWS), (3, ROWS)]
    assert all(after.previous == before.digest for before, after in pairwise(links))
    assert all(link.is_signed_by(SIGNER) and not link.is_signed_by(read_key(b"t" * 32)) for link in links)
    assert [link.kind for link in await chain(store, "audit")] == [BEGUN, ROWS]
    await store.close()


async def test_replicas_write_one_chain(store_url: str) -> None:
    """However many write at once, no number is missing or taken twice."""
    stores = [await Store.open(store_url, signer=SIGNER) for _ in range(3)]
    await asyncio.gather(
        *(store.decisions.add([log_row(100 * n + m)]) for m in range(5) for n, store in enumerate(stores))
    )
    links = await chain(stores[0])
    assert [link.number for link in links] == list(range(1, 17))
    assert all(after.previous == before.digest for before, after in pairwise(links))
    for store in stores:
        await store.close()


async def test_a_row_has_the_same_digest_before_and_after_the_database(store_url: str) -> None:
    """Also one with texts that are cut or cleaned, numbers without fractions, and values of every kind."""
    store = await Store.open(store_url, signer=SIGNER)
    row = log_row(
        risk_score=1,
        threshold=0,
        model="m" * 400,
        text="a\x00b",
        request=[{"path": "a", "b": 1.5, "a": None}],
        at=datetime.now(UTC),
    )
    values = {name: getattr(row, name) for name in row.__slots__}
    await store.decisions.add([row])
    stored = (await store.checkpoints.rows(decisions, [row.id]))[row.id]
    assert row_digest(decisions, values) == row_digest(decisions, stored)
    assert row_digest(decisions, {**values, "status": 500}) != row_digest(decisions, stored)
    await store.close()


async def test_pruning_leaves_a_record_and_shortens_the_chain(store_url: str) -> None:
    """It says how many rows before which moment are gone, and which checkpoint is the first that stays."""
    store = await Store.open(store_url, signer=SIGNER)
    for number in range(4):
        await store.decisions.add([log_row(number)])
    horizon = log_row(2).at
    assert await store.decisions.purge(horizon) == 2
    links = await chain(store)
    assert [(link.number, link.kind) for link in links] == [(4, ROWS), (5, ROWS), (6, PRUNED)]
    assert await store.decisions.purge(horizon - timedelta(days=1)) == 0
    assert len(await chain(store)) == 3
    await store.close()


async def test_a_write_that_fails_leaves_no_link(store_url: str) -> None:
    """Row and checkpoint are one transaction."""
    store = await Store.open(store_url, signer=SIGNER)
    await store.decisions.add([log_row(1)])
    with pytest.raises(StoreConflict):
        await store.decisions._insert([log_row(2), log_row(1)])
    assert len(await chain(store)) == 2
    await store.close()
