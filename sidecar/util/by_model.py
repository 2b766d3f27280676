"""What a table by model name says of a model: its own entry, else that of the first pattern that fits.

Each term has a table of its own, of the entries that state it: an entry that says nothing of it stands in nobody's way.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def find(table: Mapping[str, T], model: str | None) -> T | None:
    """Keys are names or patterns (`gpt-4*`), tried in their order; case matters. None without a model or an entry."""
    if not table or model is None:
        return None
    if model in table:
        return table[model]
    return next((value for pattern, value in table.items() if fnmatch.fnmatchcase(model, pattern)), None)
