"""`sidecar keys`: manages API keys beside a running server, with the same audit trail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from sidecar import policy
from sidecar.auth.api_keys import ENVIRONMENTS, ApiKey, KeyRing, describe_changes, describe_new, id_of, well_formed
from sidecar.cli import output
from sidecar.cli.admin import note, open_store
from sidecar.cli.common import CONFIG, JSON, Duration, async_command, emit
from sidecar.config import Settings
from sidecar.errors import NoSuchKey, RequestError
from sidecar.policy.inheritance import is_refused, terms_of
from sidecar.policy.switches import unknown_rules
from sidecar.storage import KeyChanges, KeyOverrides, Store
from sidecar.util.units import parse_duration, parse_rate, parse_rule_changes

NONE = "none"
"""The value with which `change` removes a term."""
F = TypeVar("F", bound=Callable[..., Any])


@click.group(short_help="Create, list, show, change, revoke and rotate API keys.")
def keys() -> None:
    """Create, list, show, change, revoke and rotate API keys; works beside a running server on the same store."""


def _without_secret(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """The id in a whole key: a message that quoted the argument would show the secret on the terminal."""
    return id_of(value) if well_formed(value) else value


@asynccontextmanager
async def _keyring(
    config_file: Path | None, rules: str | None = None, profile: str | None = None
) -> AsyncIterator[tuple[KeyRing, Store]]:
    """The keys of the store that the settings name. `rules`: changes that must be of existing rules."""
    async with open_store(config_file) as (store, settings):
        _check_profile(settings, profile)
        await _check_rules(settings, rules, profile)
        yield KeyRing(store, settings.auth), store


def _show_new(key: ApiKey, value: str, store: Store, *, as_json: bool) -> int:
    """The value goes to standard output once; messages for people go to standard error."""
    if as_json:
        expires = key.expires_at.isoformat() if key.expires_at else None
        emit({"id": key.id, "name": key.name, "key": value, "expires_at": expires})
        return 0
    place = f"key {key.id} ({key.environment}) created in {store.place}"
    output.err.print(f"{place}; its value is shown this once:", markup=False)
    click.echo(value)
    return 0


def _own_terms(command: F) -> F:
    """The options of `create` and `change` for a key's own terms."""
    options = (
        click.option("--rate", help="Its own rate, such as 600/minute."),
        click.option("--burst", help="Requests at once."),
        click.option("--threshold", help="Blocks from this score, 0 to 1."),
        click.option("--mode", help="enforce or monitor."),
        click.option("--team", help="The team that sees it and its decisions."),
        click.option("--rules", help="Rule overrides: INJ-105=off, SMG-130=block 0.8."),
        click.option("--profile", help="The profile of its requests (setting `profiles`)."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _parse_terms(options: Mapping[str, str | None]) -> KeyOverrides:
    """The terms that were given. Raises `RequestError` for invalid ones."""
    readers: dict[str, Callable[[str], Any]] = {"rate": parse_rate, "burst": int, "threshold": float}
    given_options = {name: text for name, text in options.items() if text is not None}
    return cast(
        "KeyOverrides", {name: _read(name, text, readers.get(name, str)) for name, text in given_options.items()}
    )


def _check_profile(settings: Settings, profile: str | None) -> None:
    if profile not in {None, NONE, *settings.profiles}:
        configured = ", ".join(settings.profiles) or "none is configured"
        raise RequestError(f"--profile: there is no profile {profile} (profiles: {configured})")


async def _check_rules(settings: Settings, rules: str | None, profile: str | None = None) -> None:
    """Raise `RequestError` for a change of a rule that the policies do not hold."""
    names = list(parse_rule_changes(rules or "")) if rules != NONE else []
    if names:
        loaded = await asyncio.to_thread(policy.load, settings.of_profile(profile).policies)
        if problems := unknown_rules(loaded, names):
            raise RequestError(f"--rules: {'; '.join(problems)}")


def _read(name: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return None if text == NONE else read(text)
    except (ValueError, OverflowError) as error:
        raise RequestError(f"--{name}: {error}") from None


def _from_now(text: str) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=parse_duration(text))


@keys.command("create")
@click.argument("name")
@click.option("--expires", type=Duration(), help="Valid for this long, such as 90d [default: for ever]")
@click.option("--environment", type=click.Choice(list(ENVIRONMENTS)), default=ENVIRONMENTS[0], show_default=True)
@_own_terms
@JSON
@CONFIG
@async_command
async def create_key(
    name: str,
    expires: timedelta | None,
    environment: str,
    as_json: bool,
    config_file: Path | None,
    **options: str | None,
) -> int:
    """Create a key called NAME and print its value once."""
    terms = _parse_terms(options)
    async with _keyring(config_file, options["rules"], options["profile"]) as (ring, store):
        key, value = await ring.create(name, environment=environment, expires=expires, **terms)
        await note(store, "key_created", key.id, describe_new(key))
    return _show_new(key, value, store, as_json=as_json)


@keys.command("list")
@JSON
@CONFIG
@async_command
async def list_keys(as_json: bool, config_file: Path | None) -> int:
    """List all keys with their states; never their values."""
    now = datetime.now(UTC)
    async with _keyring(config_file) as (ring, _):
        api_keys = await ring.list()
    if as_json:
        emit([{**key.as_dict(), "state": str(key.state(now))} for key in api_keys])
    else:
        output.show_keys(api_keys, now)
    return 0


@keys.command("show", short_help="Show the terms in force for a key.")
@click.argument("key_id", metavar="ID", callback=_without_secret)
@JSON
@CONFIG
@async_command
async def show_key(key_id: str, as_json: bool, config_file: Path | None) -> int:
    """Show the terms in force for the key with this ID, each with where it comes from; never its value."""
    async with open_store(config_file) as (store, settings):
        row = await store.keys.get(key_id)
    if row is None:
        raise NoSuchKey(f"There is no key with the id {key_id}.")
    key, terms = row[0], terms_of(settings, row[0])
    state = str(key.state(datetime.now(UTC)))
    if as_json:
        refused = is_refused(settings, key)
        emit({**key.as_dict(), "state": state, "refused": refused, "terms": [asdict(term) for term in terms]})
        return 0
    output.show_key(key, state, terms)
    return 0


@keys.command("change", short_help="Change the terms of a key.")
@click.argument("key_id", metavar="ID", callback=_without_secret)
@click.option("--expires", help="Ends this long from now, such as 90d; none: never.")
@_own_terms
@CONFIG
@async_command
async def change_key(key_id: str, expires: str | None, config_file: Path | None, **options: str | None) -> int:
    """Change the terms of the valid key with this ID; `none` removes a term. In force within 5 s."""
    terms = cast("KeyChanges", _parse_terms(options))
    if expires is not None:
        terms["expires_at"] = _read("expires", expires, _from_now)
    async with _keyring(config_file, options["rules"], options["profile"]) as (ring, store):
        before, after = await ring.change(key_id, terms)
        if changes := describe_changes(before, after):
            await note(store, "key_changed", key_id, changes)
    output.err.print(f"key {key_id}: {changes or 'nothing to change'}", markup=False)
    return 0


@keys.command("revoke", short_help="Revoke a key.")
@click.argument("key_id", metavar="ID", callback=_without_secret)
@CONFIG
@async_command
async def revoke_key(key_id: str, config_file: Path | None) -> int:
    """Revoke the key with this ID: it stops authenticating, everywhere within 5 s."""
    async with _keyring(config_file) as (ring, store):
        await ring.revoke(key_id)
        await note(store, "key_revoked", key_id)
    output.err.print(f"key {key_id} revoked", markup=False)
    return 0


@keys.command("rotate", short_help="Replace a key, with a grace period.")
@click.argument("key_id", metavar="ID", callback=_without_secret)
@click.option("--grace", type=Duration(), default="24h", show_default=True, help="How long the old key stays valid.")
@JSON
@CONFIG
@async_command
async def rotate_key(key_id: str, grace: timedelta, as_json: bool, config_file: Path | None) -> int:
    """Create a successor of the key with this ID; the old one stays valid for the grace period.

    The successor has the same name and terms, and the exceptions made for the old key hold for it, too.
    """
    async with _keyring(config_file) as (ring, store):
        key, value = await ring.rotate(key_id, grace)
        await note(store, "key_rotated", key_id, f"successor {key.id}, grace {grace.total_seconds():g} s")
    return _show_new(key, value, store, as_json=as_json)
