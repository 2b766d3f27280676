"""The terms in force for the requests of a key, each with where it comes from: the key, its profile, or everybody's.

`sidecar keys show` and the dashboard's page of a key show what is found here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from sidecar.config import Profile, Settings
from sidecar.types import LayerName, Source
from sidecar.util.units import format_rate

if TYPE_CHECKING:
    from sidecar.storage import ApiKey

GENERAL = "all requests"
KEY = "key"


@dataclass(frozen=True, slots=True)
class Term:
    """One term: its name, the value in force, and its origin: `key`, `profile NAME` or `all requests`."""

    name: str
    value: str
    origin: str


def terms_of(settings: Settings, key: ApiKey) -> list[Term]:
    """All terms of a key. One with a profile that is not configured has none: its requests are refused."""
    if is_refused(settings, key):
        return []
    return list(_Terms(settings, key).all())


def is_refused(settings: Settings, key: ApiKey) -> bool:
    """Whether the profile of the key is not configured, so that its requests are refused."""
    return key.profile is not None and key.profile not in settings.profiles


class _Terms:
    def __init__(self, settings: Settings, key: ApiKey) -> None:
        self._key = key
        self._profile = settings.profiles[key.profile] if key.profile else Profile()
        self._name = f"profile {key.profile}"
        self._settings = settings.of_profile(key.profile)

    def all(self) -> Iterator[Term]:
        key, settings = self._key, self._settings
        yield self._term("mode", key.mode, self._profile.mode, settings.mode)
        yield self._term("rate", key.rate and format_rate(key.rate), None, format_rate(settings.limits.rate))
        yield self._term("burst", key.burst, None, settings.limits.burst)
        if self._profile.budget is not None:
            yield Term("budget of the profile", format_rate(self._profile.budget), self._name)
        yield from self._thresholds()
        used = [layer for layer in LayerName if settings.is_enabled(layer)]
        yield self._term("layers", None, self._profile.layers, ", ".join(used))
        policies = ", ".join(map(str, settings.policies)) or "shipped"
        yield self._term("policies", None, self._profile.policies, policies)
        yield from self._rules()
        for name in ("pii", "untrusted", "responses"):
            yield self._term(name, None, getattr(self._profile, name), getattr(settings, name))
        yield from self._failures(settings.failure, self._profile.failure, "failure")

    def _term(self, name: str, key_value: object, profile_value: object, value: object) -> Term:
        """`profile_value`: what the profile says, if anything; `value`: what holds unless the key says otherwise."""
        if key_value is not None:
            return Term(name, f"{key_value:g}" if isinstance(key_value, float) else str(key_value), KEY)
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return Term(name, text, GENERAL if profile_value is None else self._name)

    def _thresholds(self) -> Iterator[Term]:
        key, profile, scan = self._key, self._profile, self._settings.scan
        yield self._term("threshold", key.threshold, profile.threshold, scan.threshold)
        for source in Source:
            policy = getattr(profile.sources, source)
            profile_threshold = policy.threshold if "threshold" in policy.model_fields_set else profile.threshold
            general = scan.sources.by_source[source].threshold
            value = scan.threshold if general is None else general
            yield self._term(f"threshold, {source}", key.threshold, profile_threshold, value)
        for name, terms in self._settings.models.items():
            if key.threshold is None and terms.threshold is not None:
                yield Term(f"threshold, model {name}", f"{terms.threshold:g}", GENERAL)

    def _rules(self) -> Iterator[Term]:
        if self._key.rules:
            yield Term("rules", self._key.rules, KEY)
        for rule, change in self._settings.rules.items():
            parts = [change.status or "", "" if change.score is None else f"{change.score:g}"]
            origin = self._name if rule in self._profile.rules else GENERAL
            yield Term(f"rule {rule}", " ".join(filter(None, parts)), origin)

    def _failures(self, failure: BaseModel, terms: BaseModel, prefix: str) -> Iterator[Term]:
        for name, value in failure:
            if isinstance(value, BaseModel):
                yield from self._failures(value, getattr(terms, name), f"{prefix}.{name}")
            else:
                given = value if name in terms.model_fields_set else None
                yield self._term(f"{prefix}.{name}", None, given, value)
