"""What lets more pass in a profile than the general settings do, setting by setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from sidecar.config import RuleOverride, Settings
from sidecar.types import LayerName, Source

_STRICTNESS = {
    "mode": ("monitor", "enforce"),
    "pii": ("flag", "redact", "block"),
    "untrusted": ("forward", "fence", "datamark"),
    "responses": ("off", "flag", "block"),
}
"""The values of settings, the loosest first."""
_STATUSES = ("off", "hint", "block")


def profile_reductions(settings: Settings) -> Iterator[str]:
    """One line for each, with the name of the profile."""
    for name, profile in settings.profiles.items():
        effective = settings.of_profile(name)
        lines = [
            *_choices(settings, effective),
            *_thresholds(settings, effective),
            *_layers(settings, effective),
            *_policies(settings.policies, profile.policies),
            *_rules(settings.rules, profile.rules),
            *_failures(settings.failure, effective.failure, "failure"),
        ]
        yield from (f"profile {name}: {line}" for line in lines)


def _choices(general: Settings, effective: Settings) -> Iterator[str]:
    for name, values in _STRICTNESS.items():
        before, after = getattr(general, name), getattr(effective, name)
        if values.index(after) < values.index(before):
            yield f"{name} {after} instead of {before}"


def _thresholds(general: Settings, effective: Settings) -> Iterator[str]:
    for source in Source:
        before, after = _threshold(general, source), _threshold(effective, source)
        if after > before:
            yield f"threshold {after:g} instead of {before:g} for the source {source}"
    for name, terms in general.models.items():
        after = max(_threshold(effective, source) for source in Source)
        if terms.threshold is not None and effective.models[name].threshold is None and after > terms.threshold:
            yield f"threshold {after:g} instead of {terms.threshold:g} for the model {name}"


def _threshold(settings: Settings, source: Source) -> float:
    threshold = settings.scan.sources.by_source[source].threshold
    return settings.scan.threshold if threshold is None else threshold


def _layers(general: Settings, effective: Settings) -> Iterator[str]:
    for layer in LayerName:
        if general.is_enabled(layer) and not effective.is_enabled(layer):
            yield f"without the layer {layer}"
    for source in Source:
        before, after = (settings.scan.sources.by_source[source].layers for settings in (general, effective))
        if missing := [layer for layer in before if layer not in after and effective.is_enabled(layer)]:
            yield f"without the layer {missing[0]} for the source {source}"


def _policies(general: tuple[Path, ...], terms: tuple[Path, ...] | None) -> Iterator[str]:
    shipped = (Path("shipped"),)
    if terms is not None and (missing := [path for path in general or shipped if path not in (terms or shipped)]):
        yield f"without the policies {', '.join(map(str, missing))}"


def _rules(general: Mapping[str, RuleOverride], terms: Mapping[str, RuleOverride]) -> Iterator[str]:
    for rule, change in terms.items():
        before = general.get(rule, RuleOverride())
        if change.status is not None and _STATUSES.index(change.status) < _STATUSES.index(before.status or "block"):
            yield f"rule {rule} {change.status}"
        elif change.score is not None and (before.score is None or change.score < before.score):
            yield f"rule {rule} with a score of {change.score:g}"


def _failures(general: BaseModel, terms: BaseModel, name: str) -> Iterator[str]:
    for field, before in general:
        after = getattr(terms, field)
        if isinstance(before, BaseModel):
            yield from _failures(before, after, f"{name}.{field}")
        elif before == "block" and after != "block":
            yield f"{name}.{field}: {after}"
