"""Settings that are valid and probably not what was meant: open to an attacker, without effect, or without rules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from sidecar.auth.api_keys import MAX_CACHE_SECONDS
from sidecar.config import Settings
from sidecar.config.sources import unknown_variables
from sidecar.policy import SHIPPED, shipped_folder


def warnings(settings: Settings, environ: Mapping[str, str] | None = None) -> list[str]:
    """One line for each; `environ`: by default that of this process."""
    variables = unknown_variables(os.environ if environ is None else environ, Settings)
    return [*_exploitable(settings), *_without_effect(settings), *variables]


def _exploitable(settings: Settings) -> list[str]:
    messages = []
    if settings.mode == "monitor":
        messages.append("mode: monitor forwards everything, attacks too")
    if settings.failure.overload == "allow":
        messages.append("failure.overload: allow lets a client that causes overload through unscanned")
    if settings.failure.all == "allow":
        messages.append("failure.all: allow forwards unscanned when no layer can answer")
    opened = [name for name, value in settings.failure.input if name not in {"media", "reference"} and value == "allow"]
    messages += [f"failure.input.{name}: allow forwards content that was not scanned" for name in opened]
    if settings.failure.unknown_route == "allow":
        messages.append("failure.unknown_route: allow forwards unclassified routes")
    unscanned_models = [name for name, terms in settings.models.items() if terms.layers == ()]
    messages += [f"models.{name}.layers: [] forwards requests for this model unscanned" for name in unscanned_models]
    overrides = (terms.upstream for terms in settings.models.values() if terms.upstream)
    upstreams = (settings.upstream, *overrides, *settings.mcp.servers.values())
    if any(upstream.api_key_file for upstream in upstreams) and settings.auth.inline == "optional":
        messages.append(
            "auth.inline: optional while the sidecar holds the upstream's key: anyone who reaches the port can use it"
        )
    return messages


def _without_effect(settings: Settings) -> list[str]:
    messages = []
    if settings.layers.rules.enabled and settings.policies and not any(map(_has_shipped, settings.policies)):
        messages.append(
            "policies: without `shipped` none of the shipped rules is loaded; write [shipped, ...] to add to them"
        )
    today = datetime.now(UTC).date()
    ended = [number for number, terms in enumerate(settings.exceptions) if terms.until < today]
    messages += [f"exceptions.{number}: ended on {settings.exceptions[number].until}" for number in ended]
    if settings.auth.cache > MAX_CACHE_SECONDS:
        messages.append(f"auth.cache: at most {MAX_CACHE_SECONDS:g}s are used, so that a revoked key ends in time")
    return messages


def unknown_rules(settings: Settings, rules: Iterable[str]) -> list[str]:
    """Exceptions of rules that the policies do not hold; `SEM-...` are the model's."""
    known = set(rules)
    return [
        f"exceptions.{number}: no rule of the policies is called {rule}"
        for number, terms in enumerate(settings.exceptions)
        for rule in terms.rules
        if rule not in known and not rule.startswith("SEM-")
    ]


def _has_shipped(path: Path) -> bool:
    return path == SHIPPED or path.resolve() == shipped_folder().resolve()
