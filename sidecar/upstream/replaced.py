"""An upstream's response with another body: one that was read before, or one that is modified on its way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from multidict import CIMultiDict, MultiMapping

from sidecar.upstream import UpstreamResponse

# Headers that describe the original bytes.
_BODY_HEADERS = ("Content-Encoding", "Content-Length", "Content-MD5", "Digest", "Content-Digest", "ETag")


class ReplacedBody:
    """A response with another body; `modified` if its bytes differ from those received."""

    def __init__(self, response: UpstreamResponse, body: AsyncIterator[bytes], *, modified: bool = False) -> None:
        self._response = response
        self._body = body
        self._dropped = _BODY_HEADERS if modified else ()

    @property
    def status(self) -> int:
        """See `UpstreamResponse`."""
        return self._response.status

    @property
    def reason(self) -> str:
        """See `UpstreamResponse`."""
        return self._response.reason

    @property
    def headers(self) -> MultiMapping[str]:
        """See `UpstreamResponse`."""
        headers = CIMultiDict(self._response.headers)
        for name in self._dropped:
            headers.popall(name, None)
        return headers

    def chunks(self) -> AsyncIterator[bytes]:
        """See `UpstreamResponse`."""
        return self._body


async def chain_body(head: Iterable[bytes], tail: AsyncIterator[bytes] | None = None) -> AsyncIterator[bytes]:
    """The chunks already read, then the remaining ones as they arrive."""
    for chunk in head:
        yield chunk
    if tail is not None:
        async for chunk in tail:
            yield chunk
