"""The settings of what the sidecar sends by itself: alerts to a webhook, decisions to Splunk or syslog."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from sidecar.config.sections import Duration, Section

AlertName = Literal["block_spike", "degraded", "fail_open", "budget_spent", "log_full", "protection_reduced"]
ALERT_NAMES: tuple[AlertName, ...] = get_args(AlertName)


def _http_address(value: str | None) -> str | None:
    """The value is not quoted: the path of a webhook is its secret."""
    parts = urlsplit(value or "http://none")
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise ValueError("must be http://HOST/PATH or https://HOST/PATH, without a user")
    return value


class Alerts(Section):
    """Messages to a webhook when protection is reduced; off without an address, which is a secret."""

    url: str | None = None
    url_file: Path | None = None
    format: Literal["json", "slack"] = "json"
    events: tuple[AlertName, ...] = ALERT_NAMES
    pause: Duration = Field(default=900.0, ge=1)
    interval: Duration = Field(default=10.0, ge=0.1)
    blocks: int = Field(default=20, ge=1)
    block_factor: float = Field(default=5.0, ge=1)
    instance: str | None = None

    _address = field_validator("url")(_http_address)

    @property
    def enabled(self) -> bool:
        """Whether there is a receiver."""
        return self.url is not None or self.url_file is not None


class Splunk(Section):
    """An HTTP Event Collector of Splunk for decisions; off without an address."""

    url: str | None = None
    token_file: Path | None = None
    index: str | None = None
    sourcetype: str = "prompt_sidecar:decision"
    ca_file: Path | None = None

    _address = field_validator("url")(_http_address)

    @model_validator(mode="after")
    def _needs_token(self) -> Splunk:
        if self.url is not None and self.token_file is None:
            raise ValueError("token_file: the collector accepts nothing without a token")
        return self


class Syslog(Section):
    """A syslog server (RFC 5424) for decisions; off without an address."""

    url: str | None = None
    facility: int = Field(default=13, ge=0, le=23)
    ca_file: Path | None = None

    @field_validator("url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "udp://none:514")
        try:
            port = parts.port
        except ValueError:
            port = None
        if (
            parts.scheme not in {"udp", "tcp", "tls"}
            or not parts.hostname
            or not port
            or parts.path
            or "@" in parts.netloc
        ):
            raise ValueError("must be udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT")
        return value


class Sinks(Section):
    """Further receivers of every decision, beside the log line and the scan log. They get no text of a prompt."""

    splunk: Splunk = Splunk()
    syslog: Syslog = Syslog()
    queue: int = Field(default=10_000, ge=1)
    batch: int = Field(default=100, ge=1, le=1_000)
