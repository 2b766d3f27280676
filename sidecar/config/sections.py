"""The sections of the settings that say how the process runs, and what every section is made of.

What is scanned, and what follows from it, is in `sidecar.config`.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from sidecar.util.units import Rate, parse_duration, parse_rate, parse_size

Duration = Annotated[float, BeforeValidator(parse_duration)]
Size = Annotated[int, BeforeValidator(parse_size)]
# YAML reads a bare `off` as false.
Off = BeforeValidator(lambda value: "off" if value is False else value)
RateSetting = Annotated[Rate, BeforeValidator(parse_rate)]
Score = Annotated[float, Field(ge=0, le=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
HostName = Annotated[str, Field(pattern=r"^[^\s/:@*]+$")]


class Section(BaseModel):
    """A part of the settings: frozen, and strict about names."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@]+/?")


class Listen(Section):
    """Where the data plane listens: scan API, inline door, `/health`."""

    host: str = "127.0.0.1"
    port: Port = 8080
    grpc_port: Port | None = None
    hosts: tuple[HostName, ...] = ()
    origins: tuple[str, ...] = ()
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()

    @field_validator("origins")
    @classmethod
    def _pages(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [origin for origin in value if origin not in {"*", "null"} and not _ORIGIN.fullmatch(origin)]:
            raise ValueError(f"{wrong[0]!r} is no origin: write it like https://chat.example, without a path")
        return value


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


class Answers(Section):
    """How answers are looked at where `responses` says so, and what `pii: redact` does with them."""

    find: tuple[Literal["system_prompt", "pii", "secrets"], ...] = ("system_prompt", "pii", "secrets")
    words: int = Field(default=8, ge=4, le=64)
    canary: Annotated[str, Field(min_length=8)] | None = None
    hold: int = Field(default=160, ge=48, le=16_384)
    body_bytes: Size = 10 * 1024 * 1024
    keepalive: Duration | None = 15.0
    restore: bool = False
    message: str = "The answer was withheld by the prompt scanner."


class Store(Section):
    """The database of keys and decisions."""

    url: str = "sqlite:///sidecar.db"
    queue: int = Field(default=10_000, ge=1)
    batch: int = Field(default=100, ge=1)
    flush: Duration = Field(default=0.5, ge=0.01)


class Inline(Section):
    """What the inline door serves beside the routes that it knows."""

    prefixes: tuple[str, ...] = (
        "/v1",
        "/openai/deployments/{deployment}",
        "/openai/v1",
        "/openai",
        "/v1beta/openai",
        "",
    )
    routes: tuple[str, ...] = ()
    files: Literal["scan_jsonl", "allow", "deny"] = "deny"
    vocabularies: dict[str, Path] = Field(default={})
    websockets: bool = False

    @model_validator(mode="after")
    def _paths(self) -> Inline:
        if wrong := [path for path in (*self.prefixes, *self.routes) if path and not path.startswith("/")]:
            raise ValueError(f"{wrong[0]!r} is no path: it must begin with a slash, without a method")
        return self


class Limits(Section):
    """Bounds on what clients may send."""

    url: str = "memory://"
    rate: RateSetting = Rate(600, 60.0)
    burst: int = Field(default=60, ge=1)
    body_bytes: Size = 10 * 1024 * 1024
    body_timeout: Duration = 15.0
    body_rate: Size = Field(default=8_000, ge=1)
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
    rows: int | None = Field(default=None, ge=1_000)
    bytes: Size = Field(default=768 * 1024 * 1024, ge=1024 * 1024)


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

    timeout: Duration = 60.0


_FIELD = re.compile(r"[A-Za-z0-9-]+")
_NOT_ADDED = frozenset(
    (
        *("authorization", "api-key", "x-api-key", "proxy-authorization"),
        *("content-encoding", "content-length", "content-type"),
        *("connection", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Credentials, which are in files (`upstream.api_key_file`), and fields of the message and of its connection."""


class UpstreamTls(Section):
    """Whom to trust beside the system's authorities, and the certificate to show (PEM files)."""

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    @model_validator(mode="after")
    def _whole(self) -> UpstreamTls:
        if self.key_file is not None and self.certificate_file is None:
            raise ValueError("key_file: without certificate_file there is no certificate to show")
        return self


class UpstreamHeaders(Section):
    """Header fields of clients that do not go up, by name or pattern, and fields that go up with every request.

    Cookies, addresses of the client's own network and what its CDN added are nobody's business there, and a CDN before
    the upstream may refuse foreign ones. Servers take `a_b` for `a-b`, so names with underscores do not go up.
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
        if wrong := [name for name in self.add if not _FIELD.fullmatch(name) or name.lower() in _NOT_ADDED]:
            raise ValueError(f"add: {wrong[0]!r} is no name of a header field that may be set here")
        if wrong := [name for name, value in self.add.items() if not (value.isascii() and value.isprintable())]:
            raise ValueError(f"add: the value of {wrong[0]} holds what no header field may hold")
        return self
