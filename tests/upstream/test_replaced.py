"""Tests of responses with a replaced body."""

from __future__ import annotations

from collections.abc import AsyncIterator

from multidict import CIMultiDict

from sidecar.upstream.replaced import ReplacedBody, chain_body

HEADERS = CIMultiDict({"Content-Length": "9", "ETag": '"x"', "X-Request-Id": "r"})


class FakeResponse:
    """An upstream's response."""

    status, reason, headers = 201, "Made", HEADERS

    async def chunks(self) -> AsyncIterator[bytes]:
        """In two chunks."""
        yield b"one"
        yield b"two"


async def test_an_unmodified_body_keeps_all_headers() -> None:
    """The chunks already read and the remaining ones are passed in order."""
    replaced = ReplacedBody(FakeResponse(), chain_body([b"a"], FakeResponse().chunks()))
    assert (replaced.status, replaced.reason, replaced.headers) == (201, "Made", HEADERS)
    assert [chunk async for chunk in replaced.chunks()] == [b"a", b"one", b"two"]


async def test_a_modified_body_drops_headers_about_the_bytes() -> None:
    """Length and digests of the original do not apply."""
    replaced = ReplacedBody(FakeResponse(), chain_body([b"a"]), modified=True)
    assert dict(replaced.headers) == {"X-Request-Id": "r"}
    assert HEADERS["ETag"] == '"x"'
