"""Settings: `config.yaml`, overridden by `SIDECAR__SECTION__KEY`, secrets by `SIDECAR__..._FILE`.

Everything is validated before anything starts, and all problems are reported together. Unknown settings are errors, in
the file and in the environment. The sections are in the modules beside this one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from sidecar.config.admin import Admin
from sidecar.config.mcp import Mcp
from sidecar.config.outbound import Alerts, Sinks
from sidecar.config.profiles import Gateway, Profile, ProfileName, with_profile
from sidecar.config.scanning import Failure, Layers, ModelOverrides, RuleOverride, Scan
from sidecar.config.sections import (
    Actions,
    Answers,
    Audit,
    Auth,
    Cache,
    Compat,
    Drain,
    ExceptionTerms,
    Inline,
    Limits,
    Listen,
    Log,
    Off,
    Section,
    Shadow,
    Store,
    Telemetry,
)
from sidecar.config.sources import override, read_file
from sidecar.config.upstream import Upstream
from sidecar.errors import ConfigError
from sidecar.types import LayerName
from sidecar.util import validation

__all__ = [
    "Actions",
    "Admin",
    "Answers",
    "Auth",
    "Block",
    "Cache",
    "Compat",
    "Limits",
    "Listen",
    "Log",
    "Mcp",
    "Section",
    "Settings",
    "Shadow",
    "Store",
    "Telemetry",
    "Upstream",
    "load",
]
RENAMED = {
    "inline.scan_roles": "scan.sources.application and scan.sources.model (layers, threshold)",
    "scan.thresholds": "scan.sources (layers and threshold of user, untrusted, application, model)",
}
"""Removed settings, and their replacements."""


class Block(Section):
    """How the inline proxy rejects a request."""

    style: Literal["error", "refusal"] = "error"
    status: int = Field(default=400, ge=400, le=499)
    message: str = "The prompt was refused by the prompt scanner."

    @model_validator(mode="after")
    def _never_retried(self) -> Block:
        if self.status in {408, 409, 429}:
            raise ValueError(f"status {self.status}: client libraries retry it, so a block would be sent again")
        return self


class Settings(Section):
    """All settings, each with its default."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    mode: Literal["enforce", "monitor"] = "enforce"
    upstream: Upstream = Upstream()
    models: dict[str, ModelOverrides] = Field(default={})
    inline: Inline = Inline()
    scan: Scan = Scan()
    layers: Layers = Layers()
    failure: Failure = Failure()
    block: Block = Block()
    history: Literal["enforce", "strip"] = "enforce"
    pii: Literal["flag", "redact", "block"] = "flag"
    untrusted: Literal["forward", "fence", "datamark"] = "forward"
    responses: Annotated[Literal["off", "flag", "block"], Off] = "off"
    answers: Answers = Answers()
    actions: Actions = Actions()
    policies: tuple[Path, ...] = ()
    rules: dict[str, RuleOverride] = Field(default={})
    exceptions: tuple[ExceptionTerms, ...] = ()
    profiles: dict[ProfileName, Profile] = Field(default={})
    gateway: Gateway = Gateway()
    shadow: Shadow = Shadow()
    store: Store = Store()
    limits: Limits = Limits()
    cache: Cache = Cache()
    auth: Auth = Auth()
    log: Log = Log()
    audit: Audit = Audit()
    compat: Compat = Compat()
    mcp: Mcp = Mcp()
    telemetry: Telemetry = Telemetry()
    alerts: Alerts = Alerts()
    sinks: Sinks = Sinks()
    drain: Drain = Drain()

    @model_validator(mode="after")
    def _ports_differ(self) -> Settings:
        ports = [port for port in (self.listen.port, self.admin.port, self.listen.grpc_port) if port]
        if len(ports) > len(set(ports)):
            raise ValueError("listen.port, admin.port and listen.grpc_port: each needs a port of its own")
        return self

    @model_validator(mode="after")
    def _pii_needs_rules(self) -> Settings:
        if self.pii != "flag" and not self.layers.rules.enabled:
            raise ValueError(f"pii: {self.pii} needs layers.rules.enabled: no other layer finds PII")
        return self

    @model_validator(mode="after")
    def _model_layers_are_usable(self) -> Settings:
        for name, terms in self.models.items():
            if terms.layers is None:
                continue
            if terms.layers and not any(self.is_enabled(layer) for layer in terms.layers):
                raise ValueError(
                    f"models.{name}.layers: none of them is in use; write [] where nothing shall be scanned"
                )
            if self.pii != "flag" and LayerName.RULES not in terms.layers:
                raise ValueError(f"models.{name}.layers: pii: {self.pii} needs rules: no other layer finds PII")
        return self

    @model_validator(mode="after")
    def _websockets_are_not_scanned(self) -> Settings:
        if self.inline.websockets and (self.scans_for_pii or self.actions.mode != "off"):
            raise ValueError("inline.websockets: neither `responses`, `actions` nor `pii: redact` scans their messages")
        return self

    @model_validator(mode="after")
    def _websockets_are_not_marked(self) -> Settings:
        if self.inline.websockets and self.untrusted != "forward":
            raise ValueError(f"inline.websockets: untrusted: {self.untrusted} does not mark their messages")
        return self

    @model_validator(mode="after")
    def _actions_need_the_values(self) -> Settings:
        if self.actions.mode != "off" and self.untrusted == "datamark":
            raise ValueError(
                f"actions.mode: {self.actions.mode} cannot look up values in which datamark leaves no blanks"
            )
        if self.actions.mode != "off" and self.pii == "redact":
            raise ValueError(f"actions.mode: {self.actions.mode} cannot look up the values that pii: redact replaces")
        return self

    def is_enabled(self, layer: LayerName) -> bool:
        """Whether the settings enable a layer."""
        if layer is LayerName.LLM_JUDGE:
            return self.layers.llm_judge.url is not None
        return self.layers.rules.enabled if layer is LayerName.RULES else self.layers.semantic.enabled

    @model_validator(mode="after")
    def _grpc_needs_envoy(self) -> Settings:
        if self.listen.grpc_port is not None and not self.compat.envoy:
            raise ValueError("listen.grpc_port needs compat.envoy: it serves Envoy alone")
        return self

    @model_validator(mode="after")
    def _profiles_are_usable(self) -> Settings:
        """Each with these settings is valid itself, and uses nothing that is off."""
        for name, profile in self.profiles.items():
            if off := [layer for layer in profile.layers or () if not self.is_enabled(layer)]:
                raise ValueError(f"profiles.{name}.layers: {off[0]} is off for all (layers.{off[0]})")
            try:
                with_profile(self, profile)
            except ValidationError as error:
                raise ValueError(f"profiles.{name}: {validation.describe(error.errors()[0])}") from None
        return self

    def of_profile(self, name: str | None) -> Settings:
        """The settings of requests with a profile; without one these."""
        return with_profile(self, self.profiles[name]) if name in self.profiles else self

    @property
    def scans_for_pii(self) -> bool:
        """Whether the inline proxy looks for PII beside the scan: in responses, or to redact prompts."""
        return self.responses != "off" or self.pii == "redact"


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the file (default `config.yaml`, if it exists) and the environment.

    Raises `ConfigError` with every problem found, each with the place where it was set.
    """
    settings, problems = validated(read_file(path), os.environ if environ is None else environ)
    if problems or settings is None:
        raise ConfigError(f"{path or 'configuration'}: {len(problems)} problem(s)", problems)
    return settings


def check(environ: Mapping[str, str]) -> list[str]:
    """The problems of settings that come from these variables alone."""
    return validated({}, environ)[1]


def validated(values: dict[str, Any], environ: Mapping[str, str]) -> tuple[Settings | None, list[str]]:
    """The settings of a file's values, into which the variables are put, and every problem; None: no settings."""
    problems: list[str] = []
    origin = override(values, environ, problems, Settings)
    try:
        return Settings.model_validate(values), problems
    except ValidationError as error:
        return None, problems + [_describe(item, origin) for item in error.errors()]


def _describe(item: Any, origin: Mapping[str, str]) -> str:
    place = ".".join(str(part) for part in item["loc"])
    message = validation.describe(item)
    if item["type"] == "extra_forbidden":
        unknown = "unknown setting" + validation.suggestion(Settings, item["loc"])
        message = f"was replaced by {RENAMED[place]}" if place in RENAMED else unknown
    source = next((f" (from {name})" for key, name in origin.items() if place.startswith(key)), "")
    return f"{place}: {message}{source}" if place else f"{message}{source}"
