"""Tests of upstream requests, and of the package's `open`."""

from __future__ import annotations

from multidict import CIMultiDict

from sidecar import upstream
from sidecar.config import Upstream as Settings
from sidecar.upstream.echo import EchoUpstream
from sidecar.upstream.http import HttpUpstream
from sidecar.upstream.message import UpstreamRequest


def test_a_request_has_no_body_by_default() -> None:
    """Its credential goes into `Authorization` by default."""
    request = UpstreamRequest("GET", "/v1/models", CIMultiDict())
    assert (request.body, request.credential) == (None, "Authorization")


async def test_the_scheme_selects_the_upstream() -> None:
    """`local://` is covered by its own tests."""
    assert isinstance(await upstream.open(Settings(url="echo://")), EchoUpstream)
    opened = await upstream.open(Settings(url="https://api.example.com/v1"))
    assert isinstance(opened, HttpUpstream)
    await opened.close()
