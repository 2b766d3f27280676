"""What lets more pass than the defaults do: one table of reasons, from the settings and the keys.

The overview, the log line of a start, `sidecar_protection_reduced` and the alert of that name all say what is found
here, and `check` says it of the settings. Settings that are only risky or without effect are in
`sidecar.cli.setting_warnings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sidecar.config import ExceptionTerms, Settings
from sidecar.policy.profile_reductions import profile_reductions
from sidecar.policy.rules import SHIPPED, compiled, shipped_folder
from sidecar.types import LayerName, Source
from sidecar.util.units import parse_rule_changes

if TYPE_CHECKING:
    from sidecar.storage import ApiKey

REASONS = (
    "mode",
    "threshold",
    "layers",
    "sources",
    "models",
    "rules",
    "policies",
    "exceptions",
    "failure",
    "profiles",
    "keys",
)
"""Every reason, as the label of the metric has it."""
NEARLY_NEVER = 0.99
"""A threshold from which hardly any score blocks."""
UNRELATED = ("What is the capital of France?", "\u4f60\u597d\n<1>", "x" * 500)
"""Texts that no honest pattern matches all of."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """One of them. `reason`: out of `REASONS`; `text`: the setting or the key, and what follows from it."""

    reason: str
    text: str


def reductions(settings: Settings, keys: Iterable[ApiKey] = ()) -> list[Reduction]:
    """All of them, in the order of the reasons; `keys`: also those that are valid no more, which do not count."""
    now = datetime.now(UTC)
    valid = [key for key in keys if key.state(now) == "valid"]
    texts = {
        "mode": ["mode: monitor forwards everything, attacks too"] if settings.mode == "monitor" else [],
        "threshold": _thresholds(settings),
        "layers": _layers(settings),
        "sources": _sources(settings),
        "models": _models(settings),
        "rules": _rules(settings),
        "policies": _policies(settings),
        "exceptions": _exceptions(settings),
        "failure": _failure(settings),
        "profiles": list(profile_reductions(settings)),
        "keys": [text for key in valid for text in _key(key, settings.of_profile(key.profile).scan.threshold)],
    }
    return [Reduction(reason, text) for reason in REASONS for text in texts[reason]]


def holds_for_every_text(terms: ExceptionTerms) -> bool:
    """Whether an exception switches its rules off: any text, any place, any request."""
    anything = terms.text is None or all(compiled(terms.text).fullmatch(text) for text in UNRELATED)
    everywhere = terms.path is None or terms.path.strip("*.") == ""
    return bool(anything and everywhere and not (terms.key or terms.model or (terms.tool or "").strip("*")))


def _thresholds(settings: Settings) -> list[str]:
    thresholds = {
        "scan": settings.scan.threshold,
        **{f"scan.sources.{name}": policy.threshold for name, policy in settings.scan.sources.by_source.items()},
        **{f"models.{name}": terms.threshold for name, terms in settings.models.items()},
    }
    return [
        f"{name}.threshold: {value:g} blocks hardly anything"
        for name, value in thresholds.items()
        if value is not None and value >= NEARLY_NEVER
    ]


def _layers(settings: Settings) -> list[str]:
    if not any(map(settings.is_enabled, LayerName)):
        return ["layers: all are off, so nothing can be scanned and failure.all decides about every request"]
    by_default = (LayerName.RULES, LayerName.SEMANTIC)
    return [
        f"layers.{layer}.enabled: false, so the others decide alone"
        for layer in by_default
        if not settings.is_enabled(layer)
    ]


def _sources(settings: Settings) -> list[str]:
    used = {layer for layer in LayerName if settings.is_enabled(layer)}
    empty = [name for name, policy in settings.scan.sources.by_source.items() if not used.intersection(policy.layers)]
    if not used:
        return []
    if len(empty) == len(Source):
        return ["scan.sources: no layer in use reads any of them, so failure.all decides about every request"]
    return [
        f"scan.sources.{name}.layers: none is in use, so texts of this source are forwarded unscanned" for name in empty
    ]


def _models(settings: Settings) -> list[str]:
    empty = [name for name, terms in settings.models.items() if terms.layers == ()]
    return [f"models.{name}.layers: [] forwards requests for this model unscanned" for name in empty]


def _rules(settings: Settings) -> list[str]:
    changes = {rule: (terms.status, terms.score) for rule, terms in settings.rules.items()}
    return [f"rules: {effect}" for effect in _effects(changes, settings.scan.threshold)]


def _effects(changes: Mapping[str, tuple[str | None, float | None]], threshold: float) -> list[str]:
    """What changes of rules take away: status and score by rule."""
    names_by_effect = {
        "switched off": [rule for rule, (status, _) in changes.items() if status == "off"],
        "only hint": [rule for rule, (status, _) in changes.items() if status == "hint"],
        "have a score below the threshold": [
            rule
            for rule, (status, score) in changes.items()
            if status in {None, "block"} and score is not None and score < threshold
        ],
    }
    return [f"{_few(names)} {effect}" for effect, names in names_by_effect.items() if names]


def _few(names: list[str], most: int = 5) -> str:
    suffix = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)} ({', '.join(names[:most])}{suffix})"


def _policies(settings: Settings) -> list[str]:
    shipped = {SHIPPED, shipped_folder().resolve()}
    if not settings.layers.rules.enabled or not settings.policies or shipped.intersection(_resolved(settings)):
        return []
    return ["policies: without `shipped` none of the shipped rules is loaded; write [shipped, ...] to add to them"]


def _resolved(settings: Settings) -> Iterator[object]:
    for path in settings.policies:
        yield path if path == SHIPPED else path.resolve()


def _exceptions(settings: Settings) -> list[str]:
    today = datetime.now(UTC).date()
    return [
        f"exceptions.{number}: holds for every text; `rules` with status off says so plainly"
        for number, terms in enumerate(settings.exceptions)
        if terms.until >= today and holds_for_every_text(terms)
    ]


def _failure(settings: Settings) -> list[str]:
    failure = settings.failure
    opened = {
        "failure.rules: skip": (failure.rules == "skip", "lets the other layers decide without the rules"),
        "failure.semantic: skip": (failure.semantic == "skip", "lets the other layers decide without the model"),
        "failure.all: allow": (failure.all == "allow", "forwards unscanned when no layer can answer"),
        "failure.answer: allow": (
            failure.answer == "allow" and settings.responses != "off",
            "delivers responses that could not be scanned",
        ),
        "failure.overload: allow": (
            failure.overload == "allow",
            "lets a client that causes overload through unscanned",
        ),
        "failure.unknown_route: allow": (failure.unknown_route == "allow", "forwards unclassified routes"),
        "inline.files: allow": (settings.inline.files == "allow", "forwards uploaded files unscanned"),
    }
    lines = [f"{setting} {effect}" for setting, (is_open, effect) in opened.items() if is_open]
    by_default = {"media", "reference"}
    inputs = [name for name, value in failure.input if name not in by_default and value == "allow"]
    return lines + [f"failure.input.{name}: allow forwards content that was not scanned" for name in inputs]


def _key(key: ApiKey, threshold: float) -> Iterator[str]:
    """By the key's id and name, as the page of keys has them."""
    label = f"key {key.id} ({key.name})"
    if key.mode == "monitor":
        yield f"{label}: mode monitor forwards everything, attacks too"
    if key.threshold is not None and key.threshold >= NEARLY_NEVER:
        yield f"{label}: threshold {key.threshold:g} blocks hardly anything"
    changes = {rule: (change.status, change.score) for rule, change in parse_rule_changes(key.rules or "").items()}
    for effect in _effects(changes, threshold if key.threshold is None else key.threshold):
        yield f"{label}: rules: {effect}"
