"""Settings: `config.yaml`, overridden by `SIDECAR__SECTION__KEY`, secrets by `SIDECAR__..._FILE`.

Everything is validated before anything starts, and all problems are reported together. Unknown settings are errors, in
the file and in the environment. The sections about scanning are here, the others in `sidecar.config.sections`.
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
from sidecar.config.sections import (
    Actions,
    Answers,
    Auth,
    Cache,
    Compat,
    Drain,
    Duration,
    ExceptionTerms,
    Inline,
    Limits,
    Listen,
    Log,
    Off,
    RateSetting,
    Score,
    Section,
    Shadow,
    Store,
    Telemetry,
    UpstreamHeaders,
)
from sidecar.config.sources import override, read_file
from sidecar.config.upstream import Upstream
from sidecar.errors import ConfigError
from sidecar.types import LayerName, Source
from sidecar.util import validation
from sidecar.util.units import Rate

__all__ = [
    "Actions",
    "Admin",
    "Answers",
    "Auth",
    "Block",
    "Cache",
    "Compat",
    "JudgeLayer",
    "Limits",
    "Listen",
    "Log",
    "Mcp",
    "Section",
    "SemanticLayer",
    "Settings",
    "Shadow",
    "Store",
    "Telemetry",
    "Upstream",
    "load",
]
FailurePolicy = Literal["block", "allow"]
LayerFailurePolicy = Literal["block", "skip"]

RENAMED = {
    "inline.scan_roles": "scan.sources.application and scan.sources.model (layers, threshold)",
    "scan.thresholds": "scan.sources (layers and threshold of user, untrusted, application, model)",
}
"""Removed settings, and their replacements."""


class ModelOverrides(Section):
    """Settings for one model or a pattern. `layers`: restricts the layers that scan a source to these."""

    upstream: Upstream | None = None
    threshold: Score | None = None
    layers: tuple[LayerName, ...] | None = None

    def merged_with(self, default: Upstream) -> Upstream:
        """The upstream of the model: unset fields are those of `default`, unless they belong to another host."""
        if self.upstream is None:
            return default
        overrides = {name: getattr(self.upstream, name) for name in self.upstream.model_fields_set}
        inherited = set(Upstream.model_fields)
        if "url" in overrides and overrides["url"] != default.url:
            inherited -= {"api_key_file", "tls"}
            overrides.setdefault("headers", UpstreamHeaders(remove=default.headers.remove))
        return Upstream.model_construct(**{name: getattr(default, name) for name in inherited} | overrides)


class SourcePolicy(Section):
    """How the texts of one source are scanned: by which layers, and from which score they block.

    Without a threshold that of `scan` applies.
    """

    layers: tuple[LayerName, ...] = tuple(LayerName)
    threshold: Score | None = None


class ApplicationPolicy(SourcePolicy):
    """The same for texts of the application: with a threshold that is rarely reached by mistake."""

    layers: tuple[LayerName, ...] = (LayerName.RULES, LayerName.SEMANTIC)
    threshold: Score | None = 0.9


class ModelOutputPolicy(SourcePolicy):
    """The same for texts of the model: by the rules alone, with a high threshold."""

    layers: tuple[LayerName, ...] = (LayerName.RULES,)
    threshold: Score | None = 0.9


class Sources(Section):
    """How each source (`sidecar.types.Source`) is scanned. A key's own threshold takes precedence."""

    user: SourcePolicy = SourcePolicy()
    untrusted: SourcePolicy = SourcePolicy()
    application: ApplicationPolicy = ApplicationPolicy()
    model: ModelOutputPolicy = ModelOutputPolicy()

    @property
    def by_source(self) -> dict[Source, SourcePolicy]:
        """The policies by source."""
        return {source: getattr(self, source) for source in Source}


class Scan(Section):
    """The threshold of the verdict, and the bounds of one scan."""

    threshold: Score = 0.6
    sources: Sources = Sources()
    deadline: Duration = 4.0
    deadline_per_mb: Duration = 40.0
    concurrency: int = Field(default=64, ge=1)
    queue: int = Field(default=256, ge=0)


class RulesLayer(Section):
    """Deterministic patterns."""

    enabled: bool = True


class SemanticLayer(Section):
    """The embedding model: nearest known attacks and a trained head."""

    enabled: bool = True
    engine: Literal["onnx", "sentence-transformers"] = "onnx"
    model: Path | None = None
    threads: int = Field(default=1, ge=1, le=64)
    budget: int = Field(default=384, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _removed_settings(cls, values: Any) -> Any:
        removed = {
            "windows": "is gone: text may be as long as a body. layers.semantic.budget bounds what is read closely",
            "batch_tokens": "is gone: windows are no longer read in batches",
        }
        if isinstance(values, dict) and (old := [name for name in removed if name in values]):
            raise ValueError("; ".join(f"{name} {removed[name]}" for name in old))
        return values


class JudgeLayer(Section):
    """A language model that scores prompts in the uncertain band; off without a URL."""

    url: str | None = None
    model: str = ""
    api_key_file: Path | None = None
    between: tuple[Score, Score] = (0.55, 0.85)
    mode: Literal["decide", "advise"] = "decide"
    timeout: Duration = 3.0
    attempts: int = Field(default=2, ge=1, le=5)
    concurrency: int = Field(default=4, ge=1)
    queue: int = Field(default=16, ge=0)
    calls: RateSetting = Rate(120, 60.0)
    tokens: RateSetting = Rate(200_000, 60.0)
    cache: int = Field(default=10_000, ge=0)
    excerpt: int = Field(default=6_000, ge=500, le=200_000)
    control: bool = True
    breaker_failures: int = Field(default=5, ge=1)
    breaker_pause: Duration = 30.0

    @model_validator(mode="after")
    def _complete(self) -> JudgeLayer:
        if self.between[0] > self.between[1]:
            raise ValueError("between: the lower bound is above the upper one")
        if self.url and not self.model:
            raise ValueError("model: a judge needs the name of its model")
        return self


class RuleOverride(Section):
    """What an operator changes about one rule."""

    status: Annotated[Literal["off", "hint", "block"], Off] | None = None
    score: Score | None = None


class Layers(Section):
    """The three detection layers."""

    rules: RulesLayer = RulesLayer()
    semantic: SemanticLayer = SemanticLayer()
    llm_judge: JudgeLayer = JudgeLayer()


class InputFailure(Section):
    """What happens when part of a body cannot be scanned, by cause."""

    oversize: FailurePolicy = "block"
    malformed: FailurePolicy = "block"
    encoding: FailurePolicy = "block"
    media: FailurePolicy = "allow"
    token_ids: FailurePolicy = "block"
    budget: FailurePolicy = "block"
    reference: FailurePolicy = "allow"


class Failure(Section):
    """Fail open or fail closed, by situation."""

    rules: LayerFailurePolicy = "block"
    semantic: LayerFailurePolicy = "block"
    llm_judge: LayerFailurePolicy = "skip"
    all: FailurePolicy = "block"
    answer: FailurePolicy = "block"
    overload: FailurePolicy = "block"
    input: InputFailure = InputFailure()
    unknown_route: FailurePolicy = "block"


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
    responses: Annotated[Literal["off", "flag", "block"], Off] = "off"
    answers: Answers = Answers()
    actions: Actions = Actions()
    policies: tuple[Path, ...] = ()
    rules: dict[str, RuleOverride] = Field(default={})
    exceptions: tuple[ExceptionTerms, ...] = ()
    shadow: Shadow = Shadow()
    store: Store = Store()
    limits: Limits = Limits()
    cache: Cache = Cache()
    auth: Auth = Auth()
    log: Log = Log()
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
    def _actions_need_the_values(self) -> Settings:
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
