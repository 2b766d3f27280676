"""Settings that are valid and probably not what was meant: open to an attacker, without effect, or without rules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from sidecar.auth.api_keys import MAX_CACHE_SECONDS
from sidecar.config import Settings
from sidecar.config.sources import unknown_variables
from sidecar.policy import SHIPPED, compiled, shipped_folder
from sidecar.scan.aggregation import all_rules_of
from sidecar.scan.exceptions import MAX_LIFETIME
from sidecar.server.allowed_hosts import is_loopback
from sidecar.types import LayerName

UNRELATED = ("What is the capital of France?", "\u4f60\u597d\n<1>", "x" * 500)
"""Texts that no honest pattern matches all of."""


def warnings(settings: Settings, environ: Mapping[str, str] | None = None) -> list[str]:
    """One line for each; `environ`: by default that of this process."""
    variables = unknown_variables(os.environ if environ is None else environ, Settings)
    return [*_exploitable(settings), *_without_effect(settings), *_broad(settings), *variables]


def _exploitable(settings: Settings) -> list[str]:
    messages = []
    if not (settings.layers.rules.enabled or settings.layers.semantic.enabled or settings.layers.llm_judge.url):
        messages.append("layers: all are off, so nothing can be scanned and failure.all decides about every request")
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
    is_open = settings.auth.inline == "optional" and not is_loopback(settings.listen.host)
    if is_open and any(upstream.api_key_file for upstream in upstreams):
        messages.append(
            "auth.inline: optional while the sidecar holds the upstream's key: anyone who reaches the port can use it"
        )
    return messages


def exposures(settings: Settings) -> list[str]:
    """What a reviewer would ask about. Only `check` tells it: a container listens on all addresses at every start."""
    messages = []
    if not is_loopback(settings.listen.host) and not settings.listen.hosts:
        messages.append(f"listen.host: {settings.listen.host} without listen.hosts answers whatever name a client uses")
    if not is_loopback(settings.admin.host):
        messages.append(
            f"admin.host: {settings.admin.host} serves metrics, probes and the login to the network, in plain HTTP"
        )
    if settings.log.prompts == "full":
        messages.append("log.prompts: full keeps every prompt; all who read the database or a backup can read them")
    return messages


def _broad(settings: Settings) -> list[str]:
    """Exceptions that switch their rules off, or that last longer than those of the dashboard may."""
    latest = datetime.now(UTC).date() + MAX_LIFETIME
    messages = []
    for number, terms in enumerate(settings.exceptions):
        anything = terms.text is None or all(compiled(terms.text).fullmatch(text) for text in UNRELATED)
        everywhere = terms.path is None or terms.path.strip("*.") == ""
        any_request = not (terms.key or terms.model or (terms.tool or "").strip("*"))
        if anything and everywhere and any_request:
            messages.append(f"exceptions.{number}: holds for every text; `rules` with status off says so plainly")
        if terms.until > latest:
            messages.append(f"exceptions.{number}: until {terms.until} is more than {MAX_LIFETIME.days} days ahead")
    return messages


def _without_effect(settings: Settings) -> list[str]:
    messages = _inline_only(settings)
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


def _inline_only(settings: Settings) -> list[str]:
    """What the inline proxy does with responses, where other entry points are switched on that see them, too."""
    on = [name for name in ("litellm", "agentgateway", "lakera") if getattr(settings.compat, name)]
    switches = ", ".join(f"compat.{name}" for name in on)
    messages = []
    if on and settings.actions.mode != "off":
        mode = settings.actions.mode
        messages.append(f"actions.mode: {mode} holds for the inline proxy, not for responses by {switches}")
    if on and settings.answers.restore and settings.pii == "redact":
        messages.append(f"answers.restore: holds for the inline proxy; by {switches} clients see the placeholders")
    return messages


def unknown_rules(settings: Settings, rules: Iterable[str]) -> list[str]:
    """Exceptions of rules that the policies do not hold; `SEM-...` are the model's, and `semantic:*` is a layer."""
    known = {*rules, *map(all_rules_of, LayerName)}
    return [
        f"exceptions.{number}: no rule of the policies is called {rule}"
        for number, terms in enumerate(settings.exceptions)
        for rule in terms.rules
        if rule not in known and not rule.startswith("SEM-")
    ]


def _has_shipped(path: Path) -> bool:
    return path == SHIPPED or path.resolve() == shipped_folder().resolve()
