"""A long list page by page: which part is shown, and the links to the parts before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from sidecar.dashboard.forms import Form

PAGE = 50
MAX_OFFSET = 1_000_000


@dataclass(frozen=True, slots=True)
class Paging:
    """The part of a list of `total` rows that begins at `offset`. `filters`: what the links keep."""

    offset: int
    total: int
    filters: Mapping[str, str]
    size: int = PAGE

    @property
    def end(self) -> int:
        """The index after the last row of this part."""
        return min(self.offset + self.size, self.total)

    @property
    def earlier(self) -> str | None:
        """The query of the part before it."""
        return self._query(max(0, self.offset - self.size)) if self.offset else None

    @property
    def later(self) -> str | None:
        """The query of the part after it."""
        return self._query(self.offset + self.size) if self.end < self.total else None

    def _query(self, offset: int) -> str:
        return urlencode({name: value for name, value in self.filters.items() if value} | {"offset": str(offset)})


def read_offset(form: Form) -> int:
    """Where the part begins that a query asks for. Raises `RequestError`."""
    return form.whole("offset", 0, MAX_OFFSET) or 0
