"""Twin of sidecar/server/profiles.py: who selects a profile, and who does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from multidict import CIMultiDict

from sidecar.auth.api_keys import KeyRing, generate
from sidecar.config import Settings
from sidecar.errors import RequestError, Unauthorized
from sidecar.limits import MemoryBudget, MemoryLimiter
from sidecar.server.body import RESERVATION
from sidecar.server.in_process import in_process_request
from sidecar.server.middleware import Gatekeeper
from sidecar.server.profiles import ProfileSelector
from sidecar.storage import Store

GATEWAY = "10.0.0.7"
HEADER = "X-Team-Profile"


@dataclass
class Door:
    """A selector and a gatekeeper over a store with keys."""

    store: Store
    ring: KeyRing
    settings: Settings
    budget: MemoryBudget = field(default_factory=lambda: MemoryBudget(1 << 20))

    def request(self, *fields: tuple[str, str], peer: str = "192.0.2.9", path: str = "/v1/models") -> web.Request:
        """A request from this address."""
        request = in_process_request("GET", path, CIMultiDict(fields), b"", remote=peer)
        request[RESERVATION] = self.budget.reserve()
        return request

    async def close(self) -> None:
        """Close the store."""
        await self.ring.close()
        await self.store.close()

    async def select(self, request: web.Request) -> str | None:
        """The profile. Raises what the gatekeeper answers."""
        gatekeeper = Gatekeeper(self.ring, MemoryLimiter(), self.settings)
        name = await ProfileSelector(self.settings, gatekeeper).select(request)
        profile = self.settings.profiles[name] if name else None
        served = Gatekeeper(
            self.ring, MemoryLimiter(), self.settings, None, (name, profile) if profile and name else None
        )
        await served.admit_inline(request)
        return name


async def door(folder: Path, **gateway: object) -> Door:
    """Two profiles, and a gateway at one address."""
    values = {"header": HEADER, "addresses": ["10.0.0.0/24"], **gateway}
    settings = Settings.model_validate({"profiles": {"a": {}, "b": {}}, "gateway": values})
    store = await Store.open(f"sqlite:///{folder}/keys.db")
    return Door(store, KeyRing(store, settings.auth), settings)


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Door]:
    """The door with the default of `gateway.unknown`."""
    running = await door(tmp_path)
    yield running
    await running.close()


async def test_a_key_selects_its_profile_and_keeps_it(opened: Door) -> None:
    """Whatever the header says, even that of the gateway."""
    _, value = await opened.ring.create("k", profile="a")
    assert await opened.select(opened.request(("X-API-Key", value))) == "a"
    assert await opened.select(opened.request(("X-API-Key", value), (HEADER, "b"), peer=GATEWAY)) == "a"


async def test_the_header_counts_from_the_gateways_address_alone(opened: Door) -> None:
    """Not from another one, and not from a client that claims the address by X-Forwarded-For."""
    assert await opened.select(opened.request((HEADER, "b"), peer=GATEWAY)) == "b"
    assert await opened.select(opened.request((HEADER, "b"))) is None
    assert await opened.select(opened.request((HEADER, "b"), ("X-Forwarded-For", GATEWAY))) is None
    assert await opened.select(opened.request(peer=GATEWAY)) is None


async def test_the_gateways_key_without_a_profile_leaves_the_choice_to_the_header(opened: Door) -> None:
    """A gateway authenticates with one key for all of its teams."""
    _, value = await opened.ring.create("gateway")
    fields = (("X-API-Key", value), (HEADER, "a"))
    assert await opened.select(opened.request(*fields, peer=GATEWAY)) == "a"


@pytest.mark.parametrize("names", [("nobody",), ("",), ("a", "b"), ("a, b",), ("A",)])
async def test_an_unknown_name_is_refused(opened: Door, names: tuple[str, ...]) -> None:
    """So is a header that is given twice."""
    with pytest.raises(RequestError, match="no such profile") as caught:
        await opened.select(opened.request(*((HEADER, name) for name in names), peer=GATEWAY))
    assert (caught.value.status, caught.value.code) == (403, "profile_not_configured")


async def test_an_unknown_name_may_mean_the_general_settings(tmp_path: Path) -> None:
    """With `gateway.unknown: default`; the profile of a key is never ignored."""
    running = await door(tmp_path, unknown="default")
    assert await running.select(running.request((HEADER, "nobody"), peer=GATEWAY)) is None
    _, value = await running.ring.create("k", profile="gone")
    with pytest.raises(RequestError, match="is not configured"):
        await running.select(running.request(("X-API-Key", value)))
    await running.close()


async def test_a_key_that_is_not_valid_is_looked_up_once(opened: Door) -> None:
    """It selects nothing and gets its 401; one failure counts once in `auth.failures`."""
    settings = opened.settings.model_copy(
        update={"auth": Settings.model_validate({"auth": {"failures": "2/hour"}}).auth}
    )
    limiter = MemoryLimiter()
    for _ in range(2):
        gatekeeper = Gatekeeper(opened.ring, limiter, settings)
        request = opened.request(("X-API-Key", generate()[0]), (HEADER, "a"))
        assert await ProfileSelector(settings, gatekeeper).select(request) is None
        with pytest.raises(Unauthorized):
            await gatekeeper.admit_inline(request)


async def test_a_key_moved_to_another_profile_ends_what_began_before(opened: Door) -> None:
    """A websocket admits each message: after the change it has to be opened again."""
    key, value = await opened.ring.create("k", profile="a")
    await opened.ring.change(key.id, {"profile": "b"})
    gatekeeper = Gatekeeper(opened.ring, MemoryLimiter(), opened.settings, None, ("a", opened.settings.profiles["a"]))
    with pytest.raises(RequestError, match="has changed"):
        await gatekeeper.admit_inline(opened.request(("X-API-Key", value)))


async def test_the_clients_of_a_profile_share_its_budget(opened: Door) -> None:
    """Two keys together get no more than it says; a request without the profile takes nothing of it."""
    settings = Settings.model_validate({"profiles": {"a": {"budget": "2/hour", "burst": 2}}})
    limiter = MemoryLimiter()
    values = [(await opened.ring.create(name, profile="a"))[1] for name in "xy"]
    profile = ("a", settings.profiles["a"])
    statuses = []
    for value in (values[0], values[1], values[0]):
        try:
            await Gatekeeper(opened.ring, limiter, settings, None, profile).admit_inline(
                opened.request(("X-API-Key", value))
            )
            statuses.append(200)
        except RequestError as error:
            statuses.append(error.status)
    assert statuses == [200, 200, 429]
    _, other = await opened.ring.create("z")
    await Gatekeeper(opened.ring, limiter, settings).admit_inline(opened.request(("X-API-Key", other)))
