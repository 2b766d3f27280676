"""An upstream's answer whose body comes from elsewhere: read before, or changed on its way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from multidict import CIMultiDict, MultiMapping

from sidecar.upstream import Answer

# What described the bytes that came, and does not describe others.
_OF_BYTES = ("Content-Encoding", "Content-Length", "Content-MD5", "Digest", "Content-Digest", "ETag")


class Changed:
    """An answer with another body; `touched` if it is not the bytes that came."""

    def __init__(self, answer: Answer, body: AsyncIterator[bytes], *, touched: bool = False) -> None:
        self._answer = answer
        self._body = body
        self._dropped = _OF_BYTES if touched else ()

    @property
    def status(self) -> int:
        """See `Answer`."""
        return self._answer.status

    @property
    def reason(self) -> str:
        """See `Answer`."""
        return self._answer.reason

    @property
    def headers(self) -> MultiMapping[str]:
        """See `Answer`."""
        headers = CIMultiDict(self._answer.headers)
        for name in self._dropped:
            headers.popall(name, None)
        return headers

    def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer`."""
        return self._body


async def and_rest(head: Iterable[bytes], rest: AsyncIterator[bytes] | None = None) -> AsyncIterator[bytes]:
    """What was read of a body, and then the rest as it arrives."""
    for chunk in head:
        yield chunk
    if rest is not None:
        async for chunk in rest:
            yield chunk
