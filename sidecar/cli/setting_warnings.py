"""Settings that are valid and probably not what was meant: open to an attacker, without effect, or without rules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from sidecar.auth.api_keys import MAX_CACHE_SECONDS
from sidecar.cli import identity_warnings
from sidecar.config import Settings
from sidecar.config.sources import unknown_variables
from sidecar.policy.reductions import reductions
from sidecar.scan.aggregation import all_rules_of
from sidecar.scan.exceptions import MAX_LIFETIME
from sidecar.server.allowed_hosts import is_loopback
from sidecar.types import LayerName

SEEING_ANSWERS = ("litellm", "agentgateway", "lakera", "nemo", "fms_detectors", "portkey")
"""The switches in `compat` of the contracts that show responses."""


def warnings(settings: Settings, environ: Mapping[str, str] | None = None) -> list[str]:
    """One line for each; `environ`: by default that of this process."""
    variables = unknown_variables(os.environ if environ is None else environ, Settings)
    return [
        *_exploitable(settings),
        *_without_effect(settings),
        *_too_long(settings),
        *identity_warnings.warnings(settings.admin),
        *variables,
    ]


def _exploitable(settings: Settings) -> list[str]:
    messages = [reduction.text for reduction in reductions(settings)]
    overrides = (terms.upstream for terms in settings.models.values() if terms.upstream)
    upstreams = (settings.upstream, *overrides, *settings.mcp.servers.values())
    is_open = settings.auth.inline == "optional" and not is_loopback(settings.listen.host)
    if is_open and any(upstream.api_key_file for upstream in upstreams):
        messages.append(
            "auth.inline: optional while the sidecar holds the upstream's key: anyone who reaches the port can use it"
        )
    if any(network.prefixlen == 0 for network in settings.gateway.addresses):
        messages.append("gateway.addresses: every client is believed, so that any of them selects its profile")
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


def _too_long(settings: Settings) -> list[str]:
    """Exceptions that last longer than those of the dashboard may."""
    latest = datetime.now(UTC).date() + MAX_LIFETIME
    return [
        f"exceptions.{number}: until {terms.until} is more than {MAX_LIFETIME.days} days ahead"
        for number, terms in enumerate(settings.exceptions)
        if terms.until > latest
    ]


def _without_effect(settings: Settings) -> list[str]:
    messages = _inline_only(settings)
    today = datetime.now(UTC).date()
    ended = [number for number, terms in enumerate(settings.exceptions) if terms.until < today]
    messages += [f"exceptions.{number}: ended on {settings.exceptions[number].until}" for number in ended]
    if settings.gateway.addresses and not settings.profiles:
        messages.append("gateway.addresses: without profiles every name in the header is unknown")
    if settings.auth.cache > MAX_CACHE_SECONDS:
        messages.append(f"auth.cache: at most {MAX_CACHE_SECONDS:g}s are used, so that a revoked key ends in time")
    return messages


def _inline_only(settings: Settings) -> list[str]:
    """What the inline proxy does with responses, where other entry points are switched on that see them, too."""
    on = [name for name in SEEING_ANSWERS if getattr(settings.compat, name)]
    switches = ", ".join(f"compat.{name}" for name in on)
    messages = []
    if on and settings.actions.mode != "off":
        mode = settings.actions.mode
        messages.append(f"actions.mode: {mode} holds for the inline proxy, not for responses by {switches}")
    if on and settings.answers.restore and settings.pii == "redact":
        messages.append(f"answers.restore: holds for the inline proxy; by {switches} clients see the placeholders")
    contracts = [name for name in type(settings.compat).model_fields if getattr(settings.compat, name)]
    if settings.untrusted != "forward" and contracts:
        switches = ", ".join(f"compat.{name}" for name in contracts)
        messages.append(
            f"untrusted: {settings.untrusted} holds for the inline proxy and Envoy's ext_proc; no other entry point "
            f"({switches}) changes the texts"
        )
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
