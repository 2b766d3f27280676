"""Per-model lookup: an exact entry for the model wins, then the first pattern that matches.

Each setting has its own table, built from the entries that set it, so an entry that omits a setting hides no other.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def find(table: Mapping[str, T], model: str | None) -> T | None:
    """Keys are names or patterns (`gpt-4*`), tried in order, case-sensitive. None without a model or a match."""
    if not table or model is None:
        return None
    if model in table:
        return table[model]
    return next((value for pattern, value in table.items() if fnmatch.fnmatchcase(model, pattern)), None)
