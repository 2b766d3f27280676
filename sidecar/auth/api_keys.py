"""API keys: their format, their authentication with short-lived caches, and their life.

A value is `psk_`, 8 characters of id, 43 characters of secret (256 random bits) and 6 characters of
CRC32, all base 62. What fails its checksum is refused without asking the store. At rest there is the
SHA-256 of the value (HMAC-SHA256 where `auth.pepper_file` is set): 256 random bits need no slow hash.
A key found valid is believed for at most 5 s, which bounds how long a revocation made by another
process goes unnoticed (where the store can, word of it comes at once: `sidecar.storage.notices`); an
expiry needs no look-up and holds at once.
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

from sidecar.config import Auth
from sidecar.errors import ConfigError, NoSuchKey, RequestError, StoreError, Unauthorized, Unavailable
from sidecar.storage import LONGEST_CHANGES, LONGEST_NAME, ApiKey, KeyState, Mode, OwnTerms, Store, Terms
from sidecar.util import logs
from sidecar.util.bulkhead import Bulkhead
from sidecar.util.tasks import Background
from sidecar.util.units import Rate, format_rate, parse_rule_changes

__all__ = ["ApiKey", "KeyRing", "KeyState", "differences", "digest", "generate", "well_formed"]

PREFIX = "psk_"
TOPIC = "keys"
ENVIRONMENTS = ("development", "staging", "production")
LONGEST_TRUST = 5.0
NEGATIVE_TRUST = 1.0
CACHED_KEYS = 10_000
MAX_UNKNOWN_LOOKUPS = 4
UNKNOWN_LOOKUP_TIMEOUT = 2.0
TOUCH_EVERY = 10.0
_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ID, _SECRET, _CRC = 8, 43, 6
_LENGTH = len(PREFIX) + _ID + _SECRET + _CRC
_SHORTEST_PEPPER = 16
T = TypeVar("T")
_log = logs.get("apikeys")


def generate() -> tuple[str, str]:
    """A new `(value, id)`."""
    body = PREFIX + "".join(secrets.choice(_BASE62) for _ in range(_ID + _SECRET))
    return body + _checksum(body), _id(body)


def well_formed(value: str) -> bool:
    """Whether the value could be a key: length, prefix, characters and checksum."""
    if len(value) != _LENGTH or not value.startswith(PREFIX) or not value.isascii():
        return False
    return _checksum(value[:-_CRC]) == value[-_CRC:]


def digest(value: str, pepper: bytes | None = None) -> bytes:
    """What is kept of a value: 32 bytes."""
    raw = value.encode()
    return hashlib.sha256(raw).digest() if pepper is None else hmac.digest(pepper, raw, "sha256")


def _id(value: str) -> str:
    return value[len(PREFIX) : len(PREFIX) + _ID]


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CRC):
        number, rest = divmod(number, 62)
        digits = _BASE62[rest] + digits
    return digits


class KeyRing:
    """Authenticates values and manages keys. `start` and `close` are for servers: they write last uses down."""

    def __init__(self, store: Store, settings: Auth) -> None:
        self._keys = store.keys
        self._notices = store.notices
        self._notices.subscribe(TOPIC, self._hear)
        self._pepper = _read_pepper(settings.pepper_file)
        self._trust = min(settings.cache, LONGEST_TRUST)
        self._grace = settings.stale_grace
        self._known: dict[bytes, tuple[ApiKey, float]] = {}
        self._unknown: dict[bytes, tuple[None, float]] = {}
        self._unknown_lookups = Bulkhead(MAX_UNKNOWN_LOOKUPS, queue=None)
        self._asking: dict[bytes, asyncio.Task[ApiKey | None]] = {}
        self._changes = 0
        self._used: dict[str, datetime] = {}
        self._background = Background()

    async def start(self) -> None:
        """Write last uses down from time to time, and listen to the other replicas."""
        await self._notices.start()
        self._background.repeat("keys_touch", self._touch, TOUCH_EVERY)

    async def close(self) -> None:
        """Write the last uses that are still in memory."""
        await self._notices.close()
        await self._background.close()
        await self._touch()

    def knows(self, value: str | None) -> bool:
        """Whether this process has found the key before, so that it is no stranger's guess. It may have ended since."""
        return value is not None and well_formed(value) and digest(value, self._pepper) in self._known

    async def authenticate(self, value: str | None) -> ApiKey:
        """The valid key behind `value`; else `Unauthorized`, or `Unavailable` if the store does not answer."""
        if value is None or not well_formed(value):
            raise _refused()
        hashed = digest(value, self._pepper)
        key, until = self._known.get(hashed) or self._unknown.get(hashed) or (None, 0.0)
        if until <= time.monotonic():
            key = await self._ask(_id(value), hashed)
        now = datetime.now(UTC)
        if key is None or key.state(now) is not KeyState.VALID:
            raise _refused()
        self._used[key.id] = now
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
    ) -> tuple[ApiKey, str]:
        """A new key and its value, which nobody can show again. Raises `RequestError` for a bad argument."""
        _check(name, environment)
        _check_terms({"burst": burst, "threshold": threshold, "mode": mode, "rules": rules})
        value, key_id = generate()
        now = datetime.now(UTC)
        ends = None if expires is None else now + expires
        own = OwnTerms(rate=rate, burst=burst, threshold=threshold, mode=mode, rules=rules)
        key = ApiKey(key_id, name, environment, now, ends, **own)
        await self._keys.add(key, digest(value, self._pepper))
        _log.info("key_created", key_id=key.id, environment=environment)
        return key, value

    async def list(self) -> list[ApiKey]:
        """All keys, the oldest first."""
        return await self._keys.list()

    async def revoke(self, key_id: str) -> None:
        """From now on here, and within 5 s on every other replica, the key is refused."""
        if not await self._keys.revoke(key_id, datetime.now(UTC)):
            raise NoSuchKey(f"There is no key with the id {key_id}.")
        await self._tell(key_id)
        _log.info("key_revoked", key_id=key_id)

    async def delete(self, key_id: str) -> None:
        """As `revoke`, and the record of the key is gone."""
        if not await self._keys.delete(key_id):
            raise NoSuchKey(f"There is no key with the id {key_id}.")
        await self._tell(key_id)
        _log.info("key_deleted", key_id=key_id)

    async def change(self, key_id: str, terms: Terms) -> tuple[ApiKey, ApiKey]:
        """Other terms for a valid key, in force as soon as a revocation would be; the key before and after.

        Terms that are not named stay. A key that has ended never comes back, whatever its terms.
        """
        now = datetime.now(UTC)
        _check_terms(terms)
        ends = terms.get("expires_at")
        if ends is not None and ends <= now:
            raise RequestError("The end must lie in the future; to end a key now, revoke it.", param="expires")
        done = await self._keys.change(key_id, terms, now)
        if done is None:
            raise await self._not_valid(key_id, "changed")
        await self._tell(key_id)
        _log.info("key_changed", key_id=key_id, terms=sorted(terms))
        return done

    async def rotate(self, key_id: str, grace: timedelta) -> tuple[ApiKey, str]:
        """A successor with the same name and limits, and its value; the old key expires after `grace`."""
        value, heir_id = generate()
        now = datetime.now(UTC)
        heir = await self._keys.rotate(key_id, ApiKey(heir_id, "", "", now), digest(value, self._pepper), now + grace)
        if heir is None:
            raise await self._not_valid(key_id, "rotated")
        await self._tell(key_id)
        _log.info("key_rotated", key_id=key_id, successor=heir.id)
        return heir, value

    async def _not_valid(self, key_id: str, done: str) -> RequestError:
        found = await self._keys.get(key_id)
        if found is None:
            return NoSuchKey(f"There is no key with the id {key_id}.")
        key, state = found[0], found[0].state(datetime.now(UTC))
        if key.successor and state is KeyState.VALID:
            return RequestError(f"Key {key_id} was rotated already; its successor is {key.successor}.")
        return RequestError(f"Key {key_id} is {state}; only a valid key can be {done}.")

    async def _ask(self, key_id: str, hashed: bytes) -> ApiKey | None:
        """Ask the store, once for all requests that wait for the same key; a client that leaves stops nothing."""
        asking = self._asking.get(hashed)
        if asking is None:
            asking = self._asking[hashed] = self._background.spawn(self._look_up(key_id, hashed))
            asking.add_done_callback(lambda _: self._asking.pop(hashed, None))
        try:
            return await asyncio.shield(asking)
        except (StoreError, TimeoutError):
            return self._stale(hashed)

    def _stale(self, hashed: bytes) -> ApiKey:
        """While the store is down, a key found valid is believed for `auth.stale_grace` longer."""
        key, until = self._known.get(hashed, (None, 0.0))
        if key is None or until + self._grace <= time.monotonic():
            raise Unavailable("The key cannot be checked now; try again in 1 s.", retry_after=1)
        return key

    async def _look_up(self, key_id: str, hashed: bytes) -> ApiKey | None:
        asked, changes = time.monotonic(), self._changes
        key, stored = await self._find(key_id, known=hashed in self._known) or (None, bytes(32))
        if not hmac.compare_digest(stored, hashed):
            key = None
        if changes != self._changes:  # a revocation may have come in between
            return key
        self._known.pop(hashed, None)
        if key is None:
            _put(self._unknown, hashed, (None, asked + min(self._trust, NEGATIVE_TRUST)))
        else:
            _put(self._known, hashed, (key, asked + self._trust))
        return key

    async def _find(self, key_id: str, *, known: bool) -> tuple[ApiKey, bytes] | None:
        """Strangers take turns at the store: a flood of them does not keep out those who are known."""
        if known:
            return await self._keys.get(key_id)
        async with asyncio.timeout(UNKNOWN_LOOKUP_TIMEOUT), self._unknown_lookups:
            return await self._keys.get(key_id)

    async def _tell(self, key_id: str) -> None:
        """Forget the key, here and on the other replicas."""
        self._forget(key_id)
        await self._notices.publish(TOPIC, key_id)

    def _hear(self, key_id: str) -> None:
        """Word from another replica; without an id it may be any key."""
        if key_id:
            self._forget(key_id)
        else:
            self._changes += 1
            self._known.clear()

    def _forget(self, key_id: str) -> None:
        self._changes += 1
        self._known = {hashed: entry for hashed, entry in self._known.items() if entry[0].id != key_id}

    async def _touch(self) -> None:
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await self._keys.touch(used)
        except StoreError as error:
            self._used = {**used, **self._used}
            _log.warning("keys_touch_failed", error=error)


def _put(cache: dict[bytes, T], hashed: bytes, entry: T) -> None:
    """Remember as the newest; the oldest makes room."""
    cache.pop(hashed, None)
    while len(cache) >= CACHED_KEYS:
        del cache[next(iter(cache))]
    cache[hashed] = entry


def _refused() -> Unauthorized:
    """The same words for every cause, so that nobody learns which part was wrong."""
    return Unauthorized("The API key is missing or not valid.")


def _check(name: str, environment: str) -> None:
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise RequestError(f"A key needs a name of 1 to {LONGEST_NAME} printable characters.", param="name")
    if environment not in ENVIRONMENTS:
        raise RequestError(f"The environment must be one of {', '.join(ENVIRONMENTS)}.", param="environment")


def _check_terms(terms: Terms) -> None:
    burst, threshold, mode = terms.get("burst"), terms.get("threshold"), terms.get("mode")
    if burst is not None and burst < 1:
        raise RequestError("The burst must be at least 1.", param="burst")
    if threshold is not None and not 0 <= threshold <= 1:
        raise RequestError("The threshold must lie between 0 and 1.", param="threshold")
    if mode is not None and mode not in get_args(Mode):
        raise RequestError("The mode must be enforce or monitor.", param="mode")
    _check_rules(terms.get("rules"))


def _check_rules(rules: str | None) -> None:
    if rules is not None and len(rules) > LONGEST_CHANGES:
        raise RequestError(f"At most {LONGEST_CHANGES} characters.", param="rules")
    try:
        parse_rule_changes(rules or "")
    except ValueError as error:
        raise RequestError(f"{error}.", param="rules") from None


def differences(old: ApiKey, new: ApiKey) -> str:
    """What became of the terms of a key, for the audit trail."""
    changed = (name for name in Terms.__annotations__ if getattr(old, name) != getattr(new, name))
    return ", ".join(f"{name} {_word(getattr(old, name))} to {_word(getattr(new, name))}" for name in changed)


def _word(term: object) -> str:
    if isinstance(term, Rate):
        return format_rate(term)
    if isinstance(term, datetime):
        return term.isoformat(" ", "seconds")
    return "none" if term is None else str(term)


def _read_pepper(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        pepper = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError("auth.pepper_file cannot be read", [f"{path}: {error.strerror}"]) from None
    if len(pepper) < _SHORTEST_PEPPER:
        raise ConfigError("auth.pepper_file is too short", [f"{path}: at least {_SHORTEST_PEPPER} bytes"])
    return pepper
