"""Settings: `config.yaml`, overridden by `SIDECAR__SECTION__KEY`, secrets by `SIDECAR__..._FILE`.

Everything is checked before anything starts, and all problems are reported in one go. Unknown
settings are errors, in the file and in the environment alike. The models are below; how they are
filled is in `load`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from sidecar.errors import ConfigError
from sidecar.overrides import override, read_file
from sidecar.units import Rate, parse_duration, parse_rate, parse_size

Duration = Annotated[float, BeforeValidator(parse_duration)]
Size = Annotated[int, BeforeValidator(parse_size)]
# YAML reads a bare `off` as false.
Off = BeforeValidator(lambda value: "off" if value is False else value)
RateSetting = Annotated[Rate, BeforeValidator(parse_rate)]
Score = Annotated[float, Field(ge=0, le=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
HostName = Annotated[str, Field(pattern=r"^[^\s/:@*]+$")]
Situation = Literal["block", "allow"]
LayerSituation = Literal["block", "skip"]


class Section(BaseModel):
    """A part of the settings: frozen, and strict about names."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(Section):
    """Where the data plane listens: scan API, inline door, `/health`."""

    host: str = "127.0.0.1"
    port: Port = 8080
    grpc_port: Port | None = None
    hosts: tuple[HostName, ...] = ()
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()


class Admin(Section):
    """Where the dashboard, metrics and readiness listen, and how long a login holds."""

    host: str = "127.0.0.1"
    port: Port = 8081
    url: str | None = None
    idle: Duration = Field(default=3600.0, ge=60)
    session: Duration = Field(default=43_200.0, ge=60)
    quit: bool = False

    @model_validator(mode="after")
    def _address(self) -> Admin:
        parts = urlsplit(self.url or "http://localhost")
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(f"url {self.url!r}: write it like https://sidecar.example, without a path")
        return self


class Upstream(Section):
    """The OpenAI-compatible service behind the inline door."""

    url: str = "echo://"
    api_key_file: Path | None = None
    connect_timeout: Duration = 5.0
    first_byte_timeout: Duration = 120.0
    idle_timeout: Duration = 60.0
    connections: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _known_scheme(self) -> Upstream:
        scheme = self.url.partition("://")[0]
        if scheme not in {"echo", "local", "http", "https"}:
            raise ValueError(f"url {self.url!r}: the scheme must be http, https, echo or local")
        return self


class Inline(Section):
    """What the inline door serves beside the routes that it knows."""

    prefixes: tuple[str, ...] = ("/v1", "/openai/deployments/{deployment}")
    routes: tuple[str, ...] = ()
    files: Literal["scan_jsonl", "allow", "deny"] = "deny"
    scan_roles: tuple[Literal["assistant", "system"], ...] = ()
    vocabularies: dict[str, Path] = {}

    @model_validator(mode="after")
    def _paths(self) -> Inline:
        if wrong := [path for path in (*self.prefixes, *self.routes) if path and not path.startswith("/")]:
            raise ValueError(f"{wrong[0]!r} is no path: it must begin with a slash, without a method")
        return self


class Thresholds(Section):
    """Thresholds of single roles and of what the model reads and nobody said; they stand before a key's own."""

    user: Score | None = None
    assistant: Score | None = None
    system: Score | None = None
    tool: Score | None = None
    other: Score | None = None
    indirect: Score | None = None


class Scan(Section):
    """The verdict's threshold, and the bounds of one scan."""

    threshold: Score = 0.6
    thresholds: Thresholds = Thresholds()
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
    budget: int = Field(default=256, ge=1)

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


class Answers(Section):
    """How answers are looked at where `responses` says so, and what `pii: redact` does with them."""

    find: tuple[Literal["system_prompt", "pii", "secrets"], ...] = ("system_prompt", "pii", "secrets")
    words: int = Field(default=8, ge=4, le=64)
    canary: Annotated[str, Field(min_length=8)] | None = None
    hold: int = Field(default=160, ge=48, le=16_384)
    body_bytes: Size = 10 * 1024 * 1024
    restore: bool = False
    message: str = "The answer was withheld by the prompt scanner."


class Store(Section):
    """The database of keys and decisions."""

    url: str = "sqlite:///sidecar.db"
    queue: int = Field(default=10_000, ge=1)
    batch: int = Field(default=100, ge=1)
    flush: Duration = Field(default=0.5, ge=0.01)


class Limits(Section):
    """Bounds on what clients may send."""

    url: str = "memory://"
    rate: RateSetting = Rate(600, 60.0)
    burst: int = Field(default=60, ge=1)
    body_bytes: Size = 10 * 1024 * 1024
    body_timeout: Duration = 15.0
    header_timeout: Duration = 15.0
    depth: int = Field(default=64, ge=8, le=512)
    bodies: Size = 384 * 1024 * 1024
    connections: int = Field(default=4096, ge=16)

    @model_validator(mode="after")
    def _room_for_one(self) -> Limits:
        if self.bodies < 10 * self.body_bytes:
            raise ValueError(f"bodies: at least ten times body_bytes ({10 * self.body_bytes} bytes), to read one")
        return self


class Cache(Section):
    """What the layers said of a text, so that a conversation is not scanned again and again. 0 entries: off."""

    url: str = "memory://"
    entries: int = Field(default=50_000, ge=0)
    bytes: Size = 32 * 1024 * 1024
    ttl: Duration = Field(default=3600.0, ge=1)


class Shadow(Section):
    """A second policy set that runs beside the first and decides nothing. No policies: off."""

    policies: tuple[Path, ...] = ()
    share: Score = 1.0
    keep: int = Field(default=10_000, ge=1, le=1_000_000)


class Auth(Section):
    """Who must show a key. The scan API always asks for one."""

    inline: Literal["optional", "required"] = "optional"
    failures: RateSetting = Rate(60, 60.0)
    cache: Duration = 5.0
    stale_grace: Duration = 0.0
    pepper_file: Path | None = None


class Log(Section):
    """What is written down."""

    format: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "info"
    prompts: Literal["none", "redacted", "full"] = "none"
    access: bool = False
    required: bool = False
    retention: Duration = 30 * 86400.0


class Compat(Section):
    """Contracts of other products, answered on the data port by the same pipeline."""

    moderations: bool = False
    llm_guard: bool = False
    lakera: bool = False
    litellm: bool = False
    agentgateway: bool = False
    envoy: bool = False


class Telemetry(Section):
    """Traces for OpenTelemetry; off without an endpoint."""

    endpoint: str | None = None
    service: str = "prompt-sidecar"
    sample: Score = 1.0

    @model_validator(mode="after")
    def _address(self) -> Telemetry:
        if self.endpoint is not None and urlsplit(self.endpoint).scheme not in {"http", "https"}:
            raise ValueError(f"endpoint {self.endpoint!r}: write it like http://127.0.0.1:4318")
        return self


class Drain(Section):
    """How a shutdown goes."""

    timeout: Duration = 30.0


class Settings(Section):
    """All settings, each with its default."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    mode: Literal["enforce", "monitor"] = "enforce"
    upstream: Upstream = Upstream()
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
    said = "unknown setting" if item["type"] == "extra_forbidden" else item["msg"].removeprefix("Value error, ")
    source = next((f" (from {name})" for key, name in origin.items() if place.startswith(key)), "")
    return f"{place}: {said}{source}" if place else f"{said}{source}"
