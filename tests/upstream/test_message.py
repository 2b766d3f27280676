"""Twin of sidecar/upstream/message.py, and of the package's `open`: a URL names its upstream."""

from __future__ import annotations

from multidict import CIMultiDict

from sidecar import upstream
from sidecar.config import Upstream as Settings
from sidecar.upstream.echo import EchoUpstream
from sidecar.upstream.http import HttpUpstream
from sidecar.upstream.message import Outgoing


def test_a_request_has_a_body_only_if_it_is_given_one() -> None:
    """And asks for credentials where OpenAI has them, unless told otherwise."""
    made = Outgoing("GET", "/v1/models", CIMultiDict())
    assert (made.body, made.credential) == (None, "Authorization")


async def test_the_scheme_chooses_the_upstream() -> None:
    """Local ones are held by their own tests."""
    assert isinstance(await upstream.open(Settings(url="echo://")), EchoUpstream)
    found = await upstream.open(Settings(url="https://api.example.com/v1"))
    assert isinstance(found, HttpUpstream)
    await found.close()
