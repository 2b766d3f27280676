"""Saved views, on each database."""

from __future__ import annotations

from dataclasses import replace

import pytest
from storage.test_admins import enter
from storage.test_analytics import NOW

from sidecar.errors import StoreConflict
from sidecar.storage import MAX_VIEWS, SHARED, Store, View

OWN = View("v1", "ada", "Blocked today", "action=block&range=day", "ada", NOW)
COMMON = View("v2", SHARED, "Jailbreaks", "label=jailbreak", "ada", NOW)


async def test_an_account_sees_its_own_and_the_shared_views(store: Store) -> None:
    """By name; those of others are neither listed nor found."""
    for view in (COMMON, OWN):
        assert await store.views.add(view)
    assert await store.views.list("ada") == [OWN, COMMON]
    assert await store.views.list("vic") == [COMMON]
    assert await store.views.get("v1", "ada") == OWN
    assert (await store.views.get("v1", "vic"), await store.views.get("v2", "vic")) == (None, COMMON)
    assert (OWN.is_shared, COMMON.is_shared) == (False, True)


async def test_a_view_is_renamed_and_deleted(store: Store) -> None:
    """An owner has each name once; another owner may have it, too."""
    for view in (OWN, COMMON, replace(OWN, id="v3", name="Other")):
        assert await store.views.add(view)
    assert await store.views.add(replace(OWN, id="v4", owner="vic"))
    with pytest.raises(StoreConflict):
        await store.views.add(replace(OWN, id="v5"))
    with pytest.raises(StoreConflict):
        await store.views.rename("v3", OWN.name)
    await store.views.rename("v3", "Another")
    await store.views.remove("v1")
    assert [view.name for view in await store.views.list("ada")] == ["Another", "Jailbreaks"]


async def test_an_owner_has_a_bounded_number_of_views(store: Store) -> None:
    """The next one is not saved; other owners have their own number."""
    for number in range(MAX_VIEWS):
        assert await store.views.add(replace(OWN, id=str(number), name=str(number)))
    assert not await store.views.add(replace(OWN, id="more", name="more"))
    assert await store.views.add(COMMON)


async def test_views_of_an_account_end_with_it(store: Store) -> None:
    """A later account of that name does not get them; shared ones stay."""
    for name in ("ada", "vic"):
        await enter(store, name)
        await store.views.add(replace(OWN, id=name, owner=name))
    await store.views.add(replace(COMMON, author="vic"))
    await store.admins.remove("vic")
    assert [view.id for view in await store.views.list("vic")] == ["v2"]
    assert [view.id for view in await store.views.list("ada")] == ["ada", "v2"]
