"""The settings of an HTTP service that requests are forwarded to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator, model_validator

from sidecar.config.sections import Duration, Section, UpstreamHeaders, UpstreamTls

_ENDPOINT = re.compile(r"/(chat/completions|completions|responses|messages|embeddings)/?\Z")
"""An endpoint at the end of a URL of which the base is needed."""


class Upstream(Section):
    """The OpenAI-compatible service behind the inline proxy."""

    endpoints: ClassVar[re.Pattern[str] | None] = _ENDPOINT
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
    def _no_credentials(cls, value: str | None) -> str | None:
        if value and "@" in value:
            raise ValueError("holds a user; write environment here and the whole address into HTTPS_PROXY")
        return value

    @model_validator(mode="after")
    def _known_scheme(self) -> Upstream:
        scheme, _, address = self.url.partition("://")
        if scheme not in {"echo", "local", "http", "https"}:
            raise ValueError(f"url {self.url!r}: the scheme must be http, https, echo or local")
        if scheme.startswith("http") and "@" in address.partition("/")[0]:
            raise ValueError("url: holds a user; credentials are sent from upstream.api_key_file only")
        if scheme.startswith("http") and ("?" in address or "#" in address):
            raise ValueError("url: ends in a query or a fragment, which no request would have; clients send their own")
        if scheme.startswith("http") and self.endpoints and (route := self.endpoints.search(address)):
            base = self.url[: -len(route.group())]
            raise ValueError(f"url: ends in {route.group()}; give the base URL, to which clients add it: {base}")
        return self
