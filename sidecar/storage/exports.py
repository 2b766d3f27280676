"""The scan log and the audit trail as files: CSV that is safe to open in a spreadsheet, or JSON Lines.

Written page by page, so that any number of decisions needs little memory. Each page is a query of its own; decisions
made during the export are newer than its first page and left out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal

from sidecar.storage.audit import Audit, Event
from sidecar.storage.decision_filter import Filter
from sidecar.storage.decisions import DecisionRow, Decisions
from sidecar.storage.keys import ApiKey
from sidecar.util import json

ExportFormat = Literal["csv", "jsonl"]
PAGE = 500
CONTENT_TYPES: dict[ExportFormat, str] = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
# Control characters, which may start terminal escape sequences: colours, titles, cursor movement.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OF_ROW = tuple(field.name for field in fields(DecisionRow))
_COLUMNS = (*_OF_ROW, "key_name", "team")
_EVENT_COLUMNS = tuple(field.name for field in fields(Event))
MAX_EVENTS = 100_000
"""Entries of the audit trail in one file; a time filter chooses others."""
NO_KEYS: Mapping[str, ApiKey] = {}
# Prefixes by which a spreadsheet recognizes a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")


async def export(
    decisions: Decisions,
    file_format: ExportFormat,
    criteria: Filter | None = None,
    page: int = PAGE,
    keys: Mapping[str, ApiKey] = NO_KEYS,
) -> AsyncIterator[bytes]:
    """All matching decisions, the newest first, in chunks of UTF-8. May raise `StoreError` between two chunks.

    `keys`: by id, those whose name and team a row has beside the id.
    """
    if file_format == "csv":
        yield _rows([_COLUMNS])
    page_filter = criteria or Filter()
    while entries := await decisions.query(page_filter, page):
        yield _written([_values(entry, keys) for entry in entries], file_format)
        if len(entries) < page:
            return
        page_filter = replace(page_filter, before=entries[-1])


async def export_audit(
    audit: Audit, file_format: ExportFormat, criteria: Mapping[str, Any], page: int = PAGE
) -> AsyncIterator[bytes]:
    """The newest `MAX_EVENTS` matching events, in chunks of UTF-8. `criteria`: those of `Audit.query`."""
    if file_format == "csv":
        yield _rows([_EVENT_COLUMNS])
    before: int | None = None
    for _ in range(0, MAX_EVENTS, page):
        events = await audit.query(**{**criteria, "before": before, "limit": page})
        if not events:
            return
        yield _written([{name: getattr(event, name) for name in _EVENT_COLUMNS} for event in events], file_format)
        before = events[-1].id


def _written(rows: Sequence[Mapping[str, Any]], file_format: ExportFormat) -> bytes:
    if file_format == "csv":
        return _rows([list(map(_cell, row.values())) for row in rows])
    return b"".join(json.dumps(row) + b"\n" for row in rows)


def _values(entry: DecisionRow, keys: Mapping[str, ApiKey]) -> dict[str, Any]:
    key = keys.get(entry.key_id or "")
    of_key = {"key_name": key and key.name, "team": key and key.team}
    return {name: getattr(entry, name) for name in _OF_ROW} | of_key


def _rows(rows: Sequence[Sequence[str]]) -> bytes:
    output = io.StringIO()
    csv.writer(output, quoting=csv.QUOTE_ALL).writerows(rows)
    return output.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> str:
    """Text that starts like a formula is prefixed with an apostrophe; numbers and times are unchanged."""
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
