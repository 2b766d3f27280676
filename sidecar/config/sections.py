"""The settings sections for running the process, and the base class of all sections.

The sections about scanning are in `sidecar.config.settings`.
"""

from __future__ import annotations

import re
from datetime import date
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from sidecar.util.units import Rate, parse_byte_rate, parse_duration, parse_rate, parse_size

Duration = Annotated[float, BeforeValidator(parse_duration)]
Size = Annotated[int, BeforeValidator(parse_size)]
# YAML parses a bare `off` as false.
Off = BeforeValidator(lambda value: "off" if value is False else value)
RateSetting = Annotated[Rate, BeforeValidator(parse_rate)]
ByteRate = Annotated[Rate, BeforeValidator(parse_byte_rate)]
Score = Annotated[float, Field(ge=0, le=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
HostName = Annotated[str, Field(pattern=r"^[^\s/:@*]+$")]


class Section(BaseModel):
    """A section of the settings: immutable, unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_ORIGIN_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@]+/?")


class Listen(Section):
    """Where the data plane listens: scan API, inline proxy, `/health`."""

    host: str = "127.0.0.1"
    port: Port = 8080
    grpc_port: Port | None = None
    hosts: tuple[HostName, ...] = ()
    origins: tuple[str, ...] = ()
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()

    @field_validator("origins")
    @classmethod
    def _valid_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if invalid := [item for item in value if item not in {"*", "null"} and not _ORIGIN_PATTERN.fullmatch(item)]:
            raise ValueError(f"{invalid[0]!r} is no origin: write it like https://chat.example, without a path")
        return value


class Answers(Section):
    """How responses are scanned where `responses` says so, and what `pii: redact` does with them."""

    find: tuple[Literal["system_prompt", "pii", "secrets"], ...] = ("system_prompt", "secrets")
    words: int = Field(default=8, ge=4, le=64)
    canary: Annotated[str, Field(min_length=8)] | None = None
    hold: int = Field(default=160, ge=48, le=16_384)
    body_bytes: Size = 10 * 1024 * 1024
    keepalive: Duration | None = 15.0
    restore: bool = False
    message: str = "The answer was withheld by the prompt scanner."


def require_pattern(value: str | None) -> str | None:
    """The value; raises `ValueError` if it is no RE2."""
    import re2  # noqa: PLC0415 - only where there is an exception

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(value or "", options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(f"no RE2: {reason.decode() if isinstance(reason, bytes) else reason}") from None
    return value


ToolClassName = Literal["reads", "writes", "sends", "executes", "pays"]
JudgedClassName = Literal["writes", "sends", "executes", "pays"]


class ActionAllowance(Section):
    """Tool calls that are not judged: of this tool (a pattern), with arguments that match as a whole (RE2)."""

    tool: Annotated[str, Field(min_length=1)]
    arguments: dict[str, Annotated[str, AfterValidator(require_pattern)]] = Field(default={})
    key: str | None = None


class Actions(Section):
    """How the actions in responses are judged: tool calls and links, by where their arguments come from."""

    mode: Annotated[Literal["off", "flag", "block", "ask"], Off] = "off"
    threshold: Score = 0.5
    classes: tuple[JudgedClassName, ...] = ("writes", "sends", "executes", "pays")
    tools: dict[str, ToolClassName] = Field(default={})
    links: bool = True
    allow: tuple[ActionAllowance, ...] = ()
    message: str = "The answer was withheld: nobody asked for the action in it."


class Store(Section):
    """The database of keys and decisions."""

    url: str = "sqlite:///sidecar.db"
    connections: int = Field(default=10, ge=2, le=200)
    dashboard_connections: int = Field(default=4, ge=1, le=200)
    queue: int = Field(default=10_000, ge=1)
    batch: int = Field(default=100, ge=1)
    flush: Duration = Field(default=0.5, ge=0.01)

    @field_validator("url")
    @classmethod
    def _known_database(cls, value: str) -> str:
        file = value.removeprefix("sqlite:///")
        is_file = file not in {value, ""} and not file.startswith(":")
        if not is_file and not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("must be sqlite:///FILE or postgresql://HOST/DATABASE")
        return value


class FileTerms(Section):
    """How files of one kind are read, by processes of their own."""

    enabled: bool = True
    deadline: Duration = Field(default=10.0, ge=0.1, le=60)
    processes: int = Field(default=2, ge=1, le=64)
    queue: int = Field(default=32, ge=0)
    characters: int = Field(default=1_000_000, ge=1, le=10_000_000)
    memory: Size = Field(default=256 * 1024 * 1024, ge=192 * 1024 * 1024)


class Pdf(FileTerms):
    """How PDFs are read. Without the extra `[pdf]` they are not."""

    pages: int = Field(default=500, ge=1)


class Pictures(FileTerms):
    """How text in pictures is read, which needs the extra `[ocr]`; `threshold`: for these texts, if it is the lower."""

    enabled: bool = False
    characters: int = Field(default=20_000, ge=1, le=10_000_000)
    memory: Size = Field(default=768 * 1024 * 1024, ge=384 * 1024 * 1024)
    pixels: int = Field(default=25_000_000, ge=1)
    threshold: Score = 0.3


class Inline(Section):
    """What the inline proxy serves beside the routes it knows."""

    prefixes: tuple[str, ...] = (
        "/v1",
        "/openai/deployments/{deployment}",
        "/openai/v1",
        "/openai",
        "/v1beta/openai",
        "/v1beta",
        "/v1/projects/{project}/locations/{location}/publishers/google",
        "/v1beta1/projects/{project}/locations/{location}/publishers/google",
        "/v1/publishers/google",
        "/v1beta1/publishers/google",
        "",
    )
    routes: tuple[str, ...] = ()
    files: Literal["scan_jsonl", "allow", "deny"] = "deny"
    vocabularies: dict[str, Path] = Field(default={})
    websockets: bool = False
    pdf: Pdf = Pdf()
    pictures: Pictures = Pictures()

    @model_validator(mode="after")
    def _paths(self) -> Inline:
        if invalid := [path for path in (*self.prefixes, *self.routes) if path and not path.startswith("/")]:
            raise ValueError(f"{invalid[0]!r} is no path: it must begin with a slash, without a method")
        return self


class Limits(Section):
    """Bounds on client requests."""

    url: str = "memory://"
    rate: RateSetting = Rate(600, 60.0)
    burst: int = Field(default=60, ge=1)
    bytes: ByteRate = Rate(600 * 1024 * 1024, 60.0)
    address_rate: RateSetting = Rate(6_000, 60.0)
    address_burst: int = Field(default=600, ge=1)
    address_connections: int = Field(default=1024, ge=1)
    body_bytes: Size = 10 * 1024 * 1024
    body_timeout: Duration = 15.0
    body_rate: Size = Field(default=8_000, ge=1)
    header_timeout: Duration = 15.0
    depth: int = Field(default=64, ge=8, le=250)  # orjson writes no more than 254 levels
    bodies: Size = 384 * 1024 * 1024
    connections: int = Field(default=4096, ge=16)

    @model_validator(mode="after")
    def _fits_one_body(self) -> Limits:
        if self.bodies < 10 * self.body_bytes:
            raise ValueError(f"bodies: at least ten times body_bytes ({10 * self.body_bytes} bytes), to read one")
        return self


class Cache(Section):
    """Scan results per segment, so that a conversation is not scanned repeatedly. 0 entries: off."""

    url: str = "memory://"
    entries: int = Field(default=50_000, ge=0)
    bytes: Size = 32 * 1024 * 1024
    ttl: Duration = Field(default=3600.0, ge=1)


class Shadow(Section):
    """A second policy set that runs beside the first without deciding. No policies: off."""

    policies: tuple[Path, ...] = ()
    share: Score = 1.0
    keep: int = Field(default=10_000, ge=1, le=1_000_000)


class ExceptionTerms(Section):
    """Rules that do not count on certain texts: all of the given conditions must hold, until the end of a day (UTC)."""

    rules: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    until: date
    reason: str = Field(min_length=1)
    text: Annotated[str | None, AfterValidator(require_pattern)] = None
    path: str | None = None
    tool: str | None = None
    key: str | None = None
    model: str | None = None

    @model_validator(mode="after")
    def _has_a_place(self) -> ExceptionTerms:
        if self.text is None and self.path is None and self.tool is None:
            raise ValueError("needs a text, a path or a tool; a rule is switched off for all texts by `rules`")
        return self


class Auth(Section):
    """Who must present a key. The scan API always requires one."""

    inline: Literal["optional", "required"] = "optional"
    failures: RateSetting = Rate(60, 60.0)
    cache: Duration = 5.0
    stale_grace: Duration = 0.0
    pepper_file: Path | None = None


class Audit(Section):
    """What is signed: checkpoints over the scan log and the audit trail, and receipts. Off without a key."""

    key_file: Path | None = None
    receipts: bool = False

    @model_validator(mode="after")
    def _receipts_need_a_key(self) -> Audit:
        if self.receipts and self.key_file is None:
            raise ValueError("receipts: need a key_file to sign with")
        return self


class Log(Section):
    """What is logged and stored."""

    format: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "info"
    prompts: Literal["none", "redacted", "full"] = "none"
    client: Literal["none", "digest", "address"] = "none"
    access: bool = False
    required: bool = False
    retention: Duration = 30 * 86400.0
    rows: int | None = Field(default=None, ge=1_000)
    bytes: Size = Field(default=768 * 1024 * 1024, ge=1024 * 1024)


class Compat(Section):
    """Contracts of other products, served on the data port by the same scanner."""

    moderations: bool = False
    llm_guard: bool = False
    lakera: bool = False
    litellm: bool = False
    agentgateway: bool = False
    nemo: bool = False
    fms_detectors: bool = False
    portkey: bool = False
    plano: bool = False
    envoy: bool = False


class Telemetry(Section):
    """OpenTelemetry traces; off without an endpoint."""

    endpoint: str | None = None
    service: str = "prompt-sidecar"
    sample: Score = 1.0
    semconv: Literal["evaluation", "guardrail"] = "evaluation"

    @model_validator(mode="after")
    def _address(self) -> Telemetry:
        if self.endpoint is not None and urlsplit(self.endpoint).scheme not in {"http", "https"}:
            raise ValueError(f"endpoint {self.endpoint!r}: write it like http://127.0.0.1:4318")
        return self


class Drain(Section):
    """Graceful shutdown."""

    timeout: Duration = 60.0


_FIELD_NAME = re.compile(r"[A-Za-z0-9-]+")
_RESERVED_HEADERS = frozenset(
    (
        *("authorization", "api-key", "x-api-key", "proxy-authorization"),
        *("content-encoding", "content-length", "content-type"),
        *("connection", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Credentials, which belong in files (`upstream.api_key_file`), and headers of the message and its connection."""


class UpstreamTls(Section):
    """Authorities to trust beside the system's, and the client certificate (PEM files)."""

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    @model_validator(mode="after")
    def _key_needs_certificate(self) -> UpstreamTls:
        if self.key_file is not None and self.certificate_file is None:
            raise ValueError("key_file: without certificate_file there is no certificate to show")
        return self


class UpstreamHeaders(Section):
    """Client headers that are not forwarded, by name or pattern, and headers added to every request.

    Cookies, addresses of the client's network and headers of its CDN do not concern the upstream, and a CDN in front
    of it may reject foreign ones. Servers treat `a_b` as `a-b`, so names with underscores are not forwarded.
    """

    remove: tuple[str, ...] = (
        "cookie",
        "forwarded",
        "x-forwarded-*",
        "x-real-ip",
        "x-client-ip",
        "true-client-ip",
        "cf-connecting-*",
        "cf-ipcountry",
        "cf-ray",
        "cf-visitor",
        "cdn-loop",
        "via",
        "origin",
        "referer",
        "*_*",
    )
    add: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _fields(self) -> UpstreamHeaders:
        if invalid := [n for n in self.add if not _FIELD_NAME.fullmatch(n) or n.lower() in _RESERVED_HEADERS]:
            raise ValueError(f"add: {invalid[0]!r} is no name of a header field that may be set here")
        if invalid := [name for name, value in self.add.items() if not (value.isascii() and value.isprintable())]:
            raise ValueError(f"add: the value of {invalid[0]} holds what no header field may hold")
        return self
