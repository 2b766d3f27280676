"""The settings of the Model Context Protocol."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sidecar.config.sections import Duration, Section
from sidecar.config.upstream import Upstream

ServerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]{0,47}$")]


class McpServer(Upstream):
    """A server behind `/mcp/NAME`: like an upstream, with streams that may be silent for long."""

    endpoints: ClassVar[re.Pattern[str] | None] = None
    url: str
    idle_timeout: Duration = 86_400.0

    @model_validator(mode="after")
    def _over_http(self) -> McpServer:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url {self.url!r}: the scheme must be http or https; `sidecar mcp` wraps a command")
        return self


class Mcp(Section):
    """The servers that are served over HTTP, and what happens when a server changes its tools."""

    servers: dict[ServerName, McpServer] = Field(default={})
    drift: Literal["warn", "block"] = "warn"
