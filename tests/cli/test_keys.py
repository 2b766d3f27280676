"""`sidecar keys` beside a running server: what it changes is in the audit trail, whose pages the dashboard shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from sidecar.auth.api_keys import KeyRing, well_formed
from sidecar.cli.keys import keys
from sidecar.config import Auth
from sidecar.storage import Store
from sidecar.util.units import Rate


@pytest.fixture
async def ring(store: Store, store_url: str, tmp_path: Path) -> AsyncIterator[KeyRing]:
    """The keys of a server on each kind of store, and a settings file that names it."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"store": {"url": store_url}}), "utf-8")
    keyring = KeyRing(store, Auth(cache=0.0))
    yield keyring
    await keyring.close()


async def run(folder: Path, *arguments: str) -> Result:
    """One command, in a thread of its own because it runs its own event loop."""
    return await asyncio.to_thread(CliRunner().invoke, keys, [*arguments, "--config", str(folder / "config.yaml")])


async def test_a_key_is_made_with_terms_of_its_own(ring: KeyRing, tmp_path: Path) -> None:
    """Standard output holds the value and nothing else; the key has what was asked for."""
    terms = ("--rate", "5/minute", "--burst", "2", "--threshold", "0.3", "--mode", "monitor")
    result = await run(tmp_path, "create", "shop", *terms)
    assert well_formed(result.stdout.strip()), result.output
    key = await ring.authenticate(result.stdout.strip())
    assert (key.rate, key.burst, key.threshold, key.mode) == (Rate(5, 60.0), 2, 0.3, "monitor")


async def test_terms_are_changed_one_by_one(ring: KeyRing, store: Store, tmp_path: Path) -> None:
    """What is not named stays, `none` gives up; the running server goes by the new terms."""
    key, value = await ring.create("shop", rate=Rate(5, 60.0), burst=2)
    done = await run(tmp_path, "change", key.id, "--rate", "9/hour", "--burst", "none", "--expires", "30d")
    assert done.exit_code == 0, done.output
    changed = await ring.authenticate(value)
    assert (changed.rate, changed.burst, changed.threshold) == (Rate(9, 3600.0), None, None)
    assert changed.expires_at is not None
    assert (await run(tmp_path, "change", key.id, "--expires", "none")).exit_code == 0
    assert (await ring.authenticate(value)).expires_at is None
    details = [event.detail for event in await store.audit.query(action="key_changed", actor="command line")]
    assert len(details) == 2
    assert "rate 5/minute to 9/hour" in details[1]


async def test_the_life_of_a_key_is_in_the_audit_trail(ring: KeyRing, store: Store, tmp_path: Path) -> None:
    """Made, rotated, revoked: by the command line, with the ids."""
    first = json.loads((await run(tmp_path, "create", "shop", "--json")).stdout)
    second = json.loads((await run(tmp_path, "rotate", first["id"], "--json")).stdout)
    await run(tmp_path, "revoke", second["id"])
    events = await store.audit.query(actor="command line")
    assert [(event.action, event.target) for event in reversed(events)] == [
        ("key_created", first["id"]),
        ("key_rotated", first["id"]),
        ("key_revoked", second["id"]),
    ]
    assert not any(first["key"][12:] in event.detail or second["key"][12:] in event.detail for event in events)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "x", "--rate", "many"), "600/minute"),
        (("create", "x", "--burst", "0"), "at least 1"),
        (("create", "x", "--mode", "off"), "enforce or monitor"),
        (("change", "nosuchid", "--burst", "3"), "nosuchid"),
        (("change", "ID", "--threshold", "2"), "between 0 and 1"),
        (("change", "ID", "--expires", "soon"), "90d"),
        (("change", "ID", "--expires", "0s"), "revoke it"),
    ],
)
async def test_what_cannot_be_done_is_one_message(
    ring: KeyRing, store: Store, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2, the words that help, and no key is other than before."""
    key, _ = await ring.create("shop")
    outcome = await run(tmp_path, *(key.id if word == "ID" else word for word in arguments))
    assert (outcome.exit_code, message in outcome.output) == (2, True), outcome.output
    assert await ring.list() == [key]
    assert await store.audit.query() == []
