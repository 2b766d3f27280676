"""Decisions for Splunk's HTTP Event Collector: a batch is one POST of JSON events.

The token is read for every batch, so that it can be rotated while the process runs.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from aiohttp import ClientError, ClientSession, TCPConnector

from sidecar import config
from sidecar.config.secret_files import read_secret
from sidecar.decision_log.sink import Event, SinkError, describe
from sidecar.errors import ConfigError
from sidecar.util import json

PATH = "/services/collector/event"
SOURCE = "prompt-sidecar"
_BAD_EVENT = {400, 413}
"""What is wrong with the events themselves: the same batch would be refused again."""


class SplunkReceiver:
    """Sends to one collector."""

    name = "splunk"

    def __init__(self, settings: config.Splunk) -> None:
        """Raises `ConfigError` if a file cannot be used."""
        assert settings.url is not None, "the caller checks"  # noqa: S101
        self._settings, self._host = settings, socket.gethostname()
        base = settings.url.rstrip("/")
        self._url = base if "/services/collector" in base else base + PATH
        _token(settings)
        tls = tls_context(settings.ca_file, "sinks.splunk.ca_file")
        self._session = ClientSession(connector=TCPConnector(ssl=tls, limit=2))

    async def send(self, events: Sequence[Event]) -> None:
        """Raises `SinkError` unless the collector has taken all of them."""
        token = await asyncio.to_thread(_token, self._settings)
        body = b"\n".join(json.dumps(self._wrapped(event)) for event in events)
        headers = {"Authorization": f"Splunk {token}", "Content-Type": "application/json"}
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                status = answer.status
        except ClientError as error:
            raise SinkError(describe(error)) from None
        if status != 200:
            raise SinkError(f"the collector answers HTTP {status}", rejected=status in _BAD_EVENT)

    async def close(self) -> None:
        """Close connections."""
        await self._session.close()

    def _wrapped(self, event: Event) -> dict[str, object]:
        index = {"index": self._settings.index} if self._settings.index else {}
        at = event.get("time", 0.0)
        return {
            "time": at,
            "host": self._host,
            "source": SOURCE,
            "sourcetype": self._settings.sourcetype,
            **index,
            "event": {name: value for name, value in event.items() if name != "time"},
        }


def _token(settings: config.Splunk) -> str:
    return read_secret(settings.token_file or Path(), "sinks.splunk.token_file")


def tls_context(ca_file: Path | None, setting: str) -> ssl.SSLContext:
    """Trusts the system's authorities and those of the file. Raises `ConfigError`."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(setting, [f"{ca_file}: {error.strerror or 'no certificates in PEM'}"]) from None
    return context
