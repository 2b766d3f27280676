"""One-time links and the address that they begin with."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sidecar.config import Settings
from sidecar.dashboard.cookies import digest
from sidecar.dashboard.invitations import LIFE, base_url, bootstrap
from sidecar.storage import Store


async def test_each_start_without_an_account_prints_a_link(store: Store) -> None:
    """Replicas that start together each print one, and each of them holds, until somebody is there."""
    links = [await bootstrap(store, "http://here") for _ in range(2)]
    for link in links:
        assert link
        token = link.removeprefix("http://here/invitation/")
        held = await store.admins.invitation(digest(token), datetime.now(UTC))
        assert held
        assert held.expires_at <= datetime.now(UTC) + LIFE
    await store.admins.accept(digest(token), "ada", "hash", datetime.now(UTC))
    assert await bootstrap(store, "http://here") is None


@pytest.mark.parametrize(
    ("admin", "base"),
    [
        ({"url": "https://side.example/"}, "https://side.example"),
        ({"host": "::"}, "http://127.0.0.1:8081"),
        ({"host": "::1", "port": 9}, "http://[::1]:9"),
    ],
)
def test_the_address_is_the_one_that_people_can_reach(admin: dict[str, object], base: str) -> None:
    """The configured one, else where it listens; a wildcard is no address."""
    assert base_url(Settings.model_validate({"admin": admin})) == base
