"""Settings: `config.yaml`, overridden by `SIDECAR__SECTION__KEY`, secrets by `SIDECAR__..._FILE`.

Everything is checked before anything starts, and all problems are reported in one go. Unknown
settings are errors, in the file and in the environment alike. The sections about scanning are below, the
others in `sidecar.config.sections`; how they are filled is in `load`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from sidecar.config.sections import (
    Admin,
    Answers,
    Auth,
    Cache,
    Compat,
    Drain,
    Duration,
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
    UpstreamTls,
)
from sidecar.config.sources import override, read_file
from sidecar.errors import ConfigError
from sidecar.types import LayerName, Source
from sidecar.util.units import Rate

__all__ = [
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
    "Section",
    "SemanticLayer",
    "Settings",
    "Shadow",
    "Store",
    "Telemetry",
    "Upstream",
    "load",
]
Situation = Literal["block", "allow"]
LayerSituation = Literal["block", "skip"]

RENAMED = {
    "inline.scan_roles": "scan.sources.application and scan.sources.model (layers, threshold)",
    "scan.thresholds": "scan.sources (layers and threshold of user, untrusted, application, model)",
}
"""Settings of earlier versions, and what does their work now."""


class Upstream(Section):
    """The OpenAI-compatible service behind the inline door."""

    url: str = "echo://"
    api_key_file: Path | None = None
    connect_timeout: Duration = 5.0
    first_byte_timeout: Duration = 600.0
    idle_timeout: Duration = 600.0
    connections: int = Field(default=256, ge=1)
    headers: UpstreamHeaders = UpstreamHeaders()
    tls: UpstreamTls = UpstreamTls()
    proxy: str | None = None

    @field_validator("proxy")
    @classmethod
    def _no_secret(cls, value: str | None) -> str | None:
        if value and "@" in value:
            raise ValueError("holds a user; write environment here and the whole address into HTTPS_PROXY")
        return value

    @model_validator(mode="after")
    def _known_scheme(self) -> Upstream:
        scheme, _, rest = self.url.partition("://")
        if scheme not in {"echo", "local", "http", "https"}:
            raise ValueError(f"url {self.url!r}: the scheme must be http, https, echo or local")
        if scheme.startswith("http") and "@" in rest.partition("/")[0]:
            raise ValueError("url: holds a user; credentials go up from upstream.api_key_file alone")
        if scheme.startswith("http") and ("?" in rest or "#" in rest):
            raise ValueError("url: ends in a query or a fragment, which no request would have; clients send their own")
        return self


class ModelTerms(Section):
    """What differs for one model, or for those of a pattern. `layers`: of those that read a source only these do."""

    upstream: Upstream | None = None
    threshold: Score | None = None
    layers: tuple[LayerName, ...] | None = None

    def over(self, default: Upstream) -> Upstream:
        """The upstream of the model: what it does not say is as in `default`, but nothing that is another host's."""
        if self.upstream is None:
            return default
        said = {name: getattr(self.upstream, name) for name in self.upstream.model_fields_set}
        shared = set(Upstream.model_fields)
        if "url" in said and said["url"] != default.url:
            shared -= {"api_key_file", "tls"}
            said.setdefault("headers", UpstreamHeaders(remove=default.headers.remove))
        return Upstream.model_construct(**{name: getattr(default, name) for name in shared} | said)


class SourceTerms(Section):
    """How the texts of one source are read: by which layers, and from which score they block.

    Without a threshold that of `scan` holds.
    """

    layers: tuple[LayerName, ...] = tuple(LayerName)
    threshold: Score | None = None


class ApplicationTerms(SourceTerms):
    """The same for what the application says: from a score that is nearly always right."""

    layers: tuple[LayerName, ...] = (LayerName.RULES, LayerName.SEMANTIC)
    threshold: Score | None = 0.9


class RulesOnly(SourceTerms):
    """The same for what the model says: by rules that are nearly always right."""

    layers: tuple[LayerName, ...] = (LayerName.RULES,)
    threshold: Score | None = 0.9


class Sources(Section):
    """How each source (`sidecar.types.Source`) is read. A key's own threshold stands before theirs."""

    user: SourceTerms = SourceTerms()
    untrusted: SourceTerms = SourceTerms()
    application: ApplicationTerms = ApplicationTerms()
    model: RulesOnly = RulesOnly()

    @property
    def each(self) -> dict[Source, SourceTerms]:
        """The terms by source."""
        return {source: getattr(self, source) for source in Source}


class Scan(Section):
    """The verdict's threshold, and the bounds of one scan."""

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
    def _not_the_old_names(cls, values: Any) -> Any:
        gone = {
            "windows": "is gone: text may be as long as a body. layers.semantic.budget bounds what is read closely",
            "batch_tokens": "is gone: windows are no longer read in batches",
        }
        if isinstance(values, dict) and (old := [name for name in gone if name in values]):
            raise ValueError("; ".join(f"{name} {gone[name]}" for name in old))
        return values


class JudgeLayer(Section):
    """A language model that gives a second opinion inside the uncertain band; off without a URL."""

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


class RuleSwitch(Section):
    """What an operator changes of one rule."""

    status: Annotated[Literal["off", "hint", "block"], Off] | None = None
    score: Score | None = None


class Layers(Section):
    """The three detection layers."""

    rules: RulesLayer = RulesLayer()
    semantic: SemanticLayer = SemanticLayer()
    llm_judge: JudgeLayer = JudgeLayer()


class InputFailure(Section):
    """What happens to a body of which some part cannot be scanned, kind by kind."""

    oversize: Situation = "block"
    malformed: Situation = "block"
    encoding: Situation = "block"
    media: Situation = "allow"
    token_ids: Situation = "block"
    budget: Situation = "block"
    reference: Situation = "allow"


class Failure(Section):
    """Fail open or fail closed, situation by situation."""

    rules: LayerSituation = "block"
    semantic: LayerSituation = "block"
    llm_judge: LayerSituation = "skip"
    all: Situation = "block"
    answer: Situation = "block"
    overload: Situation = "block"
    input: InputFailure = InputFailure()
    unknown_route: Situation = "block"


class Block(Section):
    """How the inline door says no."""

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
    models: dict[str, ModelTerms] = Field(default={})
    inline: Inline = Inline()
    scan: Scan = Scan()
    layers: Layers = Layers()
    failure: Failure = Failure()
    block: Block = Block()
    history: Literal["enforce", "strip"] = "enforce"
    pii: Literal["flag", "redact", "block"] = "flag"
    responses: Annotated[Literal["off", "flag", "block"], Off] = "off"
    answers: Answers = Answers()
    policies: tuple[Path, ...] = ()
    rules: dict[str, RuleSwitch] = Field(default={})
    shadow: Shadow = Shadow()
    store: Store = Store()
    limits: Limits = Limits()
    cache: Cache = Cache()
    auth: Auth = Auth()
    log: Log = Log()
    compat: Compat = Compat()
    telemetry: Telemetry = Telemetry()
    drain: Drain = Drain()

    @model_validator(mode="after")
    def _personal_data_is_seen(self) -> Settings:
        if self.pii != "flag" and not self.layers.rules.enabled:
            raise ValueError(f"pii: {self.pii} needs layers.rules.enabled: nobody else finds personal data")
        return self

    @model_validator(mode="after")
    def _models_are_read(self) -> Settings:
        for name, terms in self.models.items():
            if terms.layers is None:
                continue
            if terms.layers and not any(self.uses(layer) for layer in terms.layers):
                raise ValueError(
                    f"models.{name}.layers: none of them is in use; write [] where nothing shall be scanned"
                )
            if self.pii != "flag" and LayerName.RULES not in terms.layers:
                raise ValueError(f"models.{name}.layers: pii: {self.pii} needs rules; nobody else finds personal data")
        return self

    @model_validator(mode="after")
    def _sockets_pass_as_they_are(self) -> Settings:
        if self.inline.websockets and self.looks_for_personal_data:
            raise ValueError("inline.websockets: neither `responses` nor `pii: redact` looks at what passes there")
        return self

    def uses(self, layer: LayerName) -> bool:
        """Whether the settings switch a layer on."""
        if layer is LayerName.LLM_JUDGE:
            return self.layers.llm_judge.url is not None
        return self.layers.rules.enabled if layer is LayerName.RULES else self.layers.semantic.enabled

    @model_validator(mode="after")
    def _grpc_has_what_it_asks(self) -> Settings:
        if self.listen.grpc_port is not None and not self.compat.envoy:
            raise ValueError("listen.grpc_port needs compat.envoy: it is the same check over gRPC")
        return self

    @property
    def looks_for_personal_data(self) -> bool:
        """Whether the inline door looks for it beside the scan: in answers, or to replace it in prompts."""
        return self.responses != "off" or self.pii == "redact"


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the file (default `config.yaml`, if there is one) and the environment.

    Raises `ConfigError` with every problem found, each with the place where it was set.
    """
    environ = os.environ if environ is None else environ
    values = read_file(path)
    problems: list[str] = []
    origin = override(values, environ, problems, Settings)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        problems += [_describe(item, origin) for item in error.errors()]
    if problems:
        raise ConfigError(f"{path or 'configuration'}: {len(problems)} problem(s)", problems)
    return settings


def _describe(item: Any, origin: Mapping[str, str]) -> str:
    place = ".".join(str(part) for part in item["loc"])
    said = item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        said = f"was replaced by {RENAMED[place]}" if place in RENAMED else "unknown setting"
    source = next((f" (from {name})" for key, name in origin.items() if place.startswith(key)), "")
    return f"{place}: {said}{source}" if place else f"{said}{source}"
