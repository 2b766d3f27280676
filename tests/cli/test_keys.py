"""`sidecar keys` beside a running server: what it changes is in the audit trail, whose pages the dashboard shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from sidecar.auth.api_keys import KeyRing, generate, well_formed
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


@pytest.mark.parametrize("command", [("create", "shop"), ("change", "8fKq2mZx")])
async def test_a_rule_that_does_not_exist_is_refused(ring: KeyRing, tmp_path: Path, command: tuple[str, str]) -> None:
    """With what is like it; nothing is created or changed. An existing rule is taken."""
    done = await run(tmp_path, *command, "--rules", "INJ-1000=off, ACME-1=hint")
    assert (done.exit_code, await ring.list()) == (2, [])
    assert "INJ-1000: no rule has this id; did you mean INJ-100" in done.output
    assert "ACME-1: no rule has this id" in done.output
    assert (await run(tmp_path, "create", "shop", "--rules", "INJ-100=off")).exit_code == 0


async def test_a_key_says_what_is_in_force_and_where_it_comes_from(
    ring: KeyRing, store_url: str, tmp_path: Path
) -> None:
    """As a table and as JSON; a profile that is not configured cannot be given, and one that is gone is told."""
    values = {"store": {"url": store_url}, "profiles": {"strict": {"threshold": 0.4}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values), "utf-8")
    refused = await run(tmp_path, "create", "shop", "--profile", "strikt")
    assert (refused.exit_code, await ring.list()) == (2, [])
    assert "there is no profile strikt (profiles: strict)" in refused.output
    await run(tmp_path, "create", "shop", "--profile", "strict", "--mode", "monitor")
    (key,) = await ring.list()
    shown = await run(tmp_path, "show", key.id)
    assert f"{key.id}  shop (development), valid, profile strict" in shown.output
    described = json.loads((await run(tmp_path, "show", key.id, "--json")).output)
    terms = {term["name"]: (term["value"], term["origin"]) for term in described["terms"]}
    assert (terms["threshold"], terms["mode"]) == (("0.4", "profile strict"), ("monitor", "key"))
    values["profiles"] = {}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values), "utf-8")
    assert "its requests are refused" in (await run(tmp_path, "show", key.id)).output
    await run(tmp_path, "change", key.id, "--profile", "none")
    assert [key.profile for key in await ring.list()] == [None]
    assert (await run(tmp_path, "show", "8fKq2mZx")).exit_code == 2


async def test_the_store_is_named(ring: KeyRing, store: Store, tmp_path: Path) -> None:
    """Where the key was made: a server with another store does not know it. No password is shown."""
    done = await run(tmp_path, "create", "shop")
    assert f"created in {store.place}" in done.stderr
    assert await ring.list()
    assert "password" not in done.stderr


async def test_a_store_that_did_not_exist_is_told(tmp_path: Path) -> None:
    """A command in the wrong folder makes a new store, which no server has."""
    settings = {"store": {"url": f"sqlite:///{tmp_path}/own.db"}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    outputs = [(await run(tmp_path, "list")).stderr for _ in range(2)]
    assert f"SQLite file {tmp_path}/own.db is new: no server has used it" in outputs[0]
    assert str(tmp_path / "config.yaml") in outputs[0]
    assert outputs[1] == ""


@pytest.mark.parametrize("command", ["revoke", "rotate", "change"])
async def test_a_whole_key_in_place_of_its_id_is_not_repeated(ring: KeyRing, tmp_path: Path, command: str) -> None:
    """The id is taken from it, and the secret is not written to the terminal."""
    key, value = await ring.create("shop")
    done = await run(tmp_path, command, value)
    assert (done.exit_code, value in done.output) == (0, False)
    assert key.id in done.output or (await ring.list())[0].successor
    unknown, _ = generate()
    assert unknown not in (await run(tmp_path, command, unknown)).output


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


async def test_the_terms_of_a_new_key_are_in_the_audit_trail(ring: KeyRing, store: Store, tmp_path: Path) -> None:
    """A key that is made in monitor mode reads as one that was changed to it."""
    await run(tmp_path, "create", "b", "--mode", "monitor", "--threshold", "0.99", "--rate", "5/minute")
    await run(tmp_path, "create", "c", "--environment", "production")
    details = [event.detail for event in await store.audit.query(action="key_created")]
    assert details == ["c (production)", "b (development): rate 5/minute, threshold 0.99, mode monitor"]


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


OWN_RULE = Path(__file__).parents[1] / "data" / "own_rule.yaml"


async def test_rules_of_a_key_are_those_of_its_profile(ring: KeyRing, store_url: str, tmp_path: Path) -> None:
    """The stored profile counts where none is given, and one that is given counts instead of it."""
    profiles = {"fruit": {"policies": [str(OWN_RULE)]}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"store": {"url": store_url}, "profiles": profiles}), "utf-8")
    key, _ = await ring.create("shop", profile="fruit")
    assert (await run(tmp_path, "change", key.id, "--rules", "T-3=off")).exit_code == 0
    assert (await run(tmp_path, "change", key.id, "--rules", "INJ-100=off")).exit_code != 0
    assert (await run(tmp_path, "change", key.id, "--rules", "INJ-100=off", "--profile", "none")).exit_code == 0
