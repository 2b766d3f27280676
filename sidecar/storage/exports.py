"""The scan log as a file: CSV that a spreadsheet opens without running anything, or JSON a line.

Written page by page, so that any number of decisions passes through little memory. A page is a query of its own:
decisions made while the export runs are newer than its first page, and left out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields, replace
from typing import Any, Literal

from sidecar.storage.decisions import DecisionRow, Decisions, Filter
from sidecar.util import json

Form = Literal["csv", "jsonl"]
PAGE = 500
CONTENT_TYPES: dict[Form, str] = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
# A terminal takes what follows these for an order to itself: colours, titles, the place of the cursor.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NAMES = tuple(field.name for field in fields(DecisionRow))
# With one of these a spreadsheet takes a cell for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")


async def export(
    decisions: Decisions, form: Form, wanted: Filter | None = None, page: int = PAGE
) -> AsyncIterator[bytes]:
    """All decisions that match, the newest first, in pieces of UTF-8. May raise `StoreError` between two pieces."""
    if form == "csv":
        yield _rows([_NAMES])
    asked = wanted or Filter()
    while entries := await decisions.query(asked, page):
        yield _rows([_cells(entry) for entry in entries]) if form == "csv" else _lines(entries)
        if len(entries) < page:
            return
        asked = replace(asked, before=entries[-1])


def _lines(entries: Sequence[DecisionRow]) -> bytes:
    return b"".join(json.dumps(_values(entry)) + b"\n" for entry in entries)


def _values(entry: DecisionRow) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _NAMES}


def _rows(rows: Sequence[Sequence[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows(rows)
    return written.getvalue().encode("utf-8", "replace")


def _cells(entry: DecisionRow) -> list[str]:
    return [_cell(value) for value in _values(entry).values()]


def _cell(value: Any) -> str:
    """Text that begins like a formula gets an apostrophe before it; numbers and times are what they are."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return json.dumps(value).decode()
    if not isinstance(value, str):
        return str(value.isoformat())
    clean = _CONTROLS.sub("\ufffd", value)
    return f"'{clean}" if clean.lstrip(" \ufeff\u00a0").startswith(_FORMULA) else clean
