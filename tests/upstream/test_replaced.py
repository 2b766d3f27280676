"""Twin of sidecar/upstream/replaced.py: another body under the same headers."""

from __future__ import annotations

from collections.abc import AsyncIterator

from multidict import CIMultiDict

from sidecar.upstream.replaced import Changed, and_rest

HEADERS = CIMultiDict({"Content-Length": "9", "ETag": '"x"', "X-Request-Id": "r"})


class Said:
    """An upstream's answer."""

    status, reason, headers = 201, "Made", HEADERS

    async def chunks(self) -> AsyncIterator[bytes]:
        """In two pieces."""
        yield b"one"
        yield b"two"


async def test_a_body_that_was_read_is_passed_as_it_came() -> None:
    """With every header."""
    made = Changed(Said(), and_rest([b"a"], Said().chunks()))
    assert (made.status, made.reason, made.headers) == (201, "Made", HEADERS)
    assert [chunk async for chunk in made.chunks()] == [b"a", b"one", b"two"]


async def test_other_bytes_have_none_of_the_headers_about_bytes() -> None:
    """Their length and digest are not those of the upstream."""
    made = Changed(Said(), and_rest([b"a"]), touched=True)
    assert dict(made.headers) == {"X-Request-Id": "r"}
    assert HEADERS["ETag"] == '"x"'
