"""API keys: their format, authentication with short-lived caches, and life cycle.

A value is `psk_`, 8 characters of id, 43 characters of secret (256 random bits) and 6 characters of CRC32, all base 62.
A value with a wrong checksum is rejected without a query. The database holds the SHA-256 of the value (HMAC-SHA256
where `auth.pepper_file` is set): 256 random bits need no slow hash. A valid key is cached for at most 5 s, which bounds
how long a revocation by another process goes unnoticed (where the database can, a notice arrives at once:
`sidecar.storage.notices`); an expiry needs no query and takes effect at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import string
import time
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar, get_args

from sidecar.auth.refusals import RefusalCounts
from sidecar.config import Auth
from sidecar.config.secret_files import problem, read_secret_bytes
from sidecar.errors import NoSuchKey, RequestError, StoreError, Unauthorized, Unavailable
from sidecar.storage import (
    MAX_NAME,
    MAX_RULE_CHANGES,
    ApiKey,
    KeyChanges,
    KeyOverrides,
    KeyState,
    Mode,
    Store,
    valid_team,
)
from sidecar.util import logs
from sidecar.util.bulkhead import Bulkhead
from sidecar.util.tasks import Background
from sidecar.util.units import Rate, format_rate, parse_rule_changes

__all__ = [
    "ApiKey",
    "KeyRing",
    "KeyState",
    "describe_changes",
    "describe_new",
    "digest",
    "generate",
    "id_of",
    "well_formed",
]

PREFIX = "psk_"
TOPIC = "keys"
ENVIRONMENTS = ("development", "staging", "production")
MAX_CACHE_SECONDS = 5.0
REFRESH_WITHIN = 0.4
"""Share of the cache time, the last one, in which a key that is used is looked up again in the background."""
NEGATIVE_CACHE_SECONDS = 1.0
MAX_CACHED_KEYS = 10_000
MAX_UNKNOWN_LOOKUPS = 4
UNKNOWN_LOOKUP_TIMEOUT = 2.0
TOUCH_INTERVAL = 10.0
_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ID, _SECRET, _CRC = 8, 43, 6
_LENGTH = len(PREFIX) + _ID + _SECRET + _CRC
_MIN_PEPPER = 16
T = TypeVar("T")
_log = logs.get("apikeys")


def generate() -> tuple[str, str]:
    """A new `(value, id)`."""
    body = PREFIX + "".join(secrets.choice(_BASE62) for _ in range(_ID + _SECRET))
    return body + _checksum(body), id_of(body)


def well_formed(value: str) -> bool:
    """Whether the value could be a key: length, prefix, characters and checksum."""
    if len(value) != _LENGTH or not value.startswith(PREFIX) or not value.isascii():
        return False
    return _checksum(value[:-_CRC]) == value[-_CRC:]


def digest(value: str, pepper: bytes | None = None) -> bytes:
    """The stored form of a value: 32 bytes."""
    raw = value.encode()
    return hashlib.sha256(raw).digest() if pepper is None else hmac.digest(pepper, raw, "sha256")


def id_of(value: str) -> str:
    """The id within a well-formed value."""
    return value[len(PREFIX) : len(PREFIX) + _ID]


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CRC):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits


class KeyRing:
    """Authenticates values and manages keys. For servers: `start` and `close`, which save last uses and `refusals`."""

    def __init__(self, store: Store, settings: Auth) -> None:
        self._keys = store.keys
        self.refusals = RefusalCounts(store.refusals)
        self._notices = store.notices
        self._notices.subscribe(TOPIC, self._on_notice)
        self._pepper = read_pepper(settings.pepper_file)
        self._cache_seconds = min(settings.cache, MAX_CACHE_SECONDS)
        self._grace = settings.stale_grace
        self._valid: dict[bytes, tuple[ApiKey, float]] = {}
        self._invalid: dict[bytes, tuple[None, float]] = {}
        self._unknown_lookups = Bulkhead(MAX_UNKNOWN_LOOKUPS, queue=None)
        self._lookups: dict[bytes, asyncio.Task[ApiKey | None]] = {}
        self._changes = 0
        self._last_uses: dict[str, datetime] = {}
        self._background = Background()

    async def start(self) -> None:
        """Save last uses periodically, and listen to the other replicas."""
        await self._notices.start()
        self._background.repeat("keys_touch", self._touch, TOUCH_INTERVAL)

    async def close(self) -> None:
        """Save the last uses that are still in memory."""
        await self._notices.close()
        await self._background.close()
        await self._touch()

    def has_cached(self, value: str | None) -> bool:
        """Whether this process has authenticated the key before. It may have ended since."""
        return value is not None and well_formed(value) and digest(value, self._pepper) in self._valid

    async def authenticate(self, value: str | None) -> ApiKey:
        """The valid key of `value`; else `Unauthorized`, or `Unavailable` if the database does not answer."""
        if value is None or not well_formed(value):
            raise _unauthorized("malformed" if value else "missing")
        hashed = digest(value, self._pepper)
        key, until = self._valid.get(hashed) or self._invalid.get(hashed) or (None, 0.0)
        remaining = until - time.monotonic()
        if remaining <= 0:
            key = await self._look_up_once(id_of(value), hashed)
        elif key is not None and remaining < REFRESH_WITHIN * self._cache_seconds:
            self._start_lookup(id_of(value), hashed)  # so that no request waits for it when the time is over
        now = datetime.now(UTC)
        if key is None:
            raise _unauthorized("unknown")
        if (state := key.state(now)) is not KeyState.VALID:
            raise _unauthorized(str(state), key.id)
        self._last_uses[key.id] = now
        return key

    async def create(
        self,
        name: str,
        *,
        environment: str = "development",
        expires: timedelta | None = None,
        rate: Rate | None = None,
        burst: int | None = None,
        threshold: float | None = None,
        mode: Mode | None = None,
        rules: str | None = None,
        team: str | None = None,
        profile: str | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its value, which cannot be shown again. Raises `RequestError` for an invalid argument."""
        check_identity(name, environment)
        _validate_changes({"burst": burst, "threshold": threshold, "mode": mode, "rules": rules, "team": team})
        value, key_id = generate()
        now = datetime.now(UTC)
        ends = None if expires is None else now + expires
        overrides = KeyOverrides(
            rate=rate, burst=burst, threshold=threshold, mode=mode, rules=rules, team=team, profile=profile
        )
        key = ApiKey(key_id, name, environment, now, ends, **overrides)
        await self._keys.add(key, digest(value, self._pepper))
        _log.info("key_created", key_id=key.id, environment=environment)
        return key, value

    async def list(self) -> list[ApiKey]:
        """All keys, the oldest first."""
        return await self._keys.list()

    async def revoke(self, key_id: str) -> None:
        """Reject the key from now on, on every other replica within 5 s."""
        if not await self._keys.revoke(key_id, datetime.now(UTC)):
            raise NoSuchKey(f"There is no key with the id {key_id}.")
        await self._invalidate(key_id)
        _log.info("key_revoked", key_id=key_id)

    async def delete(self, key_id: str) -> None:
        """Like `revoke`, and the record of the key is deleted."""
        if not await self._keys.delete(key_id):
            raise NoSuchKey(f"There is no key with the id {key_id}.")
        await self._invalidate(key_id)
        _log.info("key_deleted", key_id=key_id)

    async def change(self, key_id: str, changes: KeyChanges) -> tuple[ApiKey, ApiKey]:
        """Change a valid key, effective as soon as a revocation would be; returns the key before and after.

        Fields that are not named stay. A key that has ended never becomes valid again.
        """
        now = datetime.now(UTC)
        _validate_changes(changes)
        ends = changes.get("expires_at")
        if ends is not None and ends <= now:
            raise RequestError("The end must lie in the future; to end a key now, revoke it.", param="expires")
        versions = await self._keys.change(key_id, changes, now)
        if versions is None:
            raise await self._not_valid(key_id, "changed")
        await self._invalidate(key_id)
        _log.info("key_changed", key_id=key_id, terms=sorted(changes))
        return versions

    async def rotate(self, key_id: str, grace: timedelta) -> tuple[ApiKey, str]:
        """A successor with the same name and limits, and its value; the old key expires after `grace`."""
        value, successor_id = generate()
        now = datetime.now(UTC)
        template = ApiKey(successor_id, "", "", now)
        successor = await self._keys.rotate(key_id, template, digest(value, self._pepper), now + grace)
        if successor is None:
            raise await self._not_valid(key_id, "rotated")
        await self._invalidate(key_id)
        _log.info("key_rotated", key_id=key_id, successor=successor.id)
        return successor, value

    async def _not_valid(self, key_id: str, action: str) -> RequestError:
        row = await self._keys.get(key_id)
        if row is None:
            return NoSuchKey(f"There is no key with the id {key_id}.")
        key, state = row[0], row[0].state(datetime.now(UTC))
        if key.successor and state is KeyState.VALID:
            return RequestError(f"Key {key_id} was rotated already; its successor is {key.successor}.")
        return RequestError(f"Key {key_id} is {state}; only a valid key can be {action}.")

    async def _look_up_once(self, key_id: str, hashed: bytes) -> ApiKey | None:
        try:
            return await asyncio.shield(self._start_lookup(key_id, hashed))
        except (StoreError, TimeoutError):
            return self._stale(hashed)

    def _start_lookup(self, key_id: str, hashed: bytes) -> asyncio.Task[ApiKey | None]:
        """One query for all requests that need the same key; a disconnecting client does not cancel it."""
        lookup = self._lookups.get(hashed)
        if lookup is None:
            lookup = self._lookups[hashed] = self._background.spawn(self._look_up(key_id, hashed))
            lookup.add_done_callback(lambda _: self._lookups.pop(hashed, None))
        return lookup

    def _stale(self, hashed: bytes) -> ApiKey:
        """While the database is down, a cached key stays valid for `auth.stale_grace` longer."""
        key, until = self._valid.get(hashed, (None, 0.0))
        if key is None or until + self._grace <= time.monotonic():
            raise Unavailable("The key cannot be checked now; try again in 1 s.", retry_after=1)
        return key

    async def _look_up(self, key_id: str, hashed: bytes) -> ApiKey | None:
        started, changes = time.monotonic(), self._changes
        key, stored = await self._find(key_id, cached=hashed in self._valid) or (None, bytes(32))
        if not hmac.compare_digest(stored, hashed):
            key = None
        if changes != self._changes:  # a revocation may have happened meanwhile
            return key
        self._valid.pop(hashed, None)
        if key is None:
            _cache(self._invalid, hashed, (None, started + min(self._cache_seconds, NEGATIVE_CACHE_SECONDS)))
        else:
            _cache(self._valid, hashed, (key, started + self._cache_seconds))
        return key

    async def _find(self, key_id: str, *, cached: bool) -> tuple[ApiKey, bytes] | None:
        """Bound the queries for keys not cached, so that a flood of them does not delay the known keys."""
        if cached:
            return await self._keys.get(key_id)
        async with asyncio.timeout(UNKNOWN_LOOKUP_TIMEOUT), self._unknown_lookups:
            return await self._keys.get(key_id)

    async def _invalidate(self, key_id: str) -> None:
        """Drop the key from the caches, here and on the other replicas."""
        self._forget(key_id)
        await self._notices.publish(TOPIC, key_id)

    def _on_notice(self, key_id: str) -> None:
        """A notice from another replica; without an id it may concern any key."""
        if key_id:
            self._forget(key_id)
        else:
            self._changes += 1
            self._valid.clear()

    def _forget(self, key_id: str) -> None:
        self._changes += 1
        self._valid = {hashed: entry for hashed, entry in self._valid.items() if entry[0].id != key_id}

    async def _touch(self) -> None:
        await self.refusals.write()
        last_uses, self._last_uses = self._last_uses, {}
        if not last_uses:
            return
        try:
            await self._keys.touch(last_uses)
        except StoreError as error:
            self._last_uses = {**last_uses, **self._last_uses}
            _log.warning("keys_touch_failed", error=error)


def _cache(entries: dict[bytes, T], hashed: bytes, entry: T) -> None:
    """Add as the newest entry, evicting the oldest beyond the bound."""
    entries.pop(hashed, None)
    while len(entries) >= MAX_CACHED_KEYS:
        del entries[next(iter(entries))]
    entries[hashed] = entry


def _unauthorized(reason: str, key_id: str | None = None) -> Unauthorized:
    """The same message for every cause, so that it does not reveal which part was wrong."""
    message = "The API key is missing or not valid (X-API-Key: psk_..., or Authorization: Bearer psk_...)."
    return Unauthorized(message, reason=reason, key_id=key_id)


def check_identity(name: str, environment: str) -> None:
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise RequestError(f"A key needs a name of 1 to {MAX_NAME} printable characters.", param="name")
    if environment not in ENVIRONMENTS:
        raise RequestError(f"The environment must be one of {', '.join(ENVIRONMENTS)}.", param="environment")


def _validate_changes(changes: KeyChanges) -> None:
    burst, threshold, mode = changes.get("burst"), changes.get("threshold"), changes.get("mode")
    if burst is not None and burst < 1:
        raise RequestError("The burst must be at least 1.", param="burst")
    if threshold is not None and not 0 <= threshold <= 1:
        raise RequestError("The threshold must lie between 0 and 1.", param="threshold")
    if mode is not None and mode not in get_args(Mode):
        raise RequestError("The mode must be enforce or monitor.", param="mode")
    check_rule_changes(changes.get("rules"))
    if (team := changes.get("team")) is not None and not valid_team(team):
        raise RequestError("A team has 1 to 64 lower-case letters, digits or any of . _ -", param="team")


def check_rule_changes(rules: str | None) -> None:
    if rules is not None and len(rules) > MAX_RULE_CHANGES:
        raise RequestError(f"At most {MAX_RULE_CHANGES} characters.", param="rules")
    try:
        parse_rule_changes(rules or "")
    except ValueError as error:
        raise RequestError(f"{error}.", param="rules") from None


def describe_changes(old: ApiKey, new: ApiKey) -> str:
    """The changed fields of a key, before and after, for the audit trail."""
    names = (name for name in KeyChanges.__annotations__ if getattr(old, name) != getattr(new, name))
    return ", ".join(f"{name} {_format(getattr(old, name))} to {_format(getattr(new, name))}" for name in names)


def describe_new(key: ApiKey) -> str:
    """A new key for the audit trail: its name, environment, and every term of its own."""
    names = (name for name in KeyChanges.__annotations__ if getattr(key, name) is not None)
    terms = ", ".join(f"{name} {_format(getattr(key, name))}" for name in names)
    return f"{key.name} ({key.environment})" + (f": {terms}" if terms else "")


def _format(value: object) -> str:
    if isinstance(value, Rate):
        return format_rate(value)
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    return "none" if value is None else str(value)


def read_pepper(path: Path | None) -> bytes | None:
    """The pepper of the keys. Raises `ConfigError` when the file cannot be used."""
    if path is None:
        return None
    pepper = read_secret_bytes(path, "auth.pepper_file")
    if len(pepper) < _MIN_PEPPER:
        raise problem("auth.pepper_file", path, f"must hold at least {_MIN_PEPPER} bytes")
    return pepper
