"""Tests of exports, on both databases."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from storage.test_analytics import NOW, PLAIN

from sidecar.storage import Filter, Store, export
from sidecar.storage.exports import ExportFormat

HOSTILE = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\tx",
    "\r=1",
    "\n=1",
    "  =1",
    "﻿=1",
    "＝1",
    "<script>",
    'a"b,c',
    "two\r\nlines",
    "\u202eright to left",
]


async def exported(store: Store, form: ExportFormat, criteria: Filter | None = None, page: int = 500) -> bytes:
    """The whole export."""
    return b"".join([piece async for piece in export(store.decisions, form, criteria, page)])


async def test_every_decision_is_in_the_file_once(store: Store) -> None:
    """Across page boundaries, even with equal timestamps."""
    rows = [replace(PLAIN, id=f"dec_{n:02}", at=NOW + timedelta(seconds=n // 4)) for n in range(25)]
    await store.decisions.add(rows)
    for page in (1, 4, 25, 500):
        lines = (await exported(store, "jsonl", page=page)).splitlines()
        assert [orjson.loads(line)["id"] for line in lines] == [row.id for row in rows[::-1]]


async def test_only_matching_rows_are_exported(store: Store) -> None:
    """The filter of the page applies to its export."""
    await store.decisions.add([PLAIN, replace(PLAIN, id="dec_1", model="m1")])
    (line,) = (await exported(store, "jsonl", Filter(model="m1"))).splitlines()
    assert orjson.loads(line)["id"] == "dec_1"


async def test_csv_has_a_header_and_can_be_parsed(store: Store) -> None:
    """Numbers stay numbers, lists are JSON, empty values are empty."""
    await store.decisions.add([replace(PLAIN, findings=[{"rule": "T-1"}], risk_score=0.25)])
    (row,) = csv.DictReader(io.StringIO((await exported(store, "csv")).decode(), newline=""))
    assert (row["risk_score"], row["findings"], row["key_id"], row["at"]) == (
        "0.25",
        '[{"rule":"T-1"}]',
        "",
        "2026-11-21T12:00:00+00:00",
    )


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_cell_is_a_formula(store: Store, text: str) -> None:
    """Whatever a client sent, no cell starts like a formula, and the row stays one row."""
    await store.decisions.add([replace(PLAIN, text=text, model=text)])
    head, row = csv.reader(io.StringIO((await exported(store, "csv")).decode(), newline=""))
    assert len(head) == len(row)
    assert not any(cell.lstrip(" \ufeff").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝")) for cell in row)
    assert dict(zip(head, row, strict=True))["text"].removeprefix("'") == text


async def test_an_empty_log_is_an_empty_file(store: Store) -> None:
    """A header, or nothing."""
    assert await exported(store, "jsonl") == b""
    assert (await exported(store, "csv")).startswith(b'"id","at"')


async def test_control_characters_are_replaced(store: Store) -> None:
    """Control characters in a client's text become replacement characters; line breaks and tabs stay."""
    hostile = "gpt\x1b[31m\x07\x9b2J\x00\ttab\nline"
    await store.decisions.add([replace(PLAIN, model=hostile)])
    text = (await exported(store, "csv")).decode()
    assert not set(text) & {chr(code) for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}
    assert "gpt\ufffd[31m" in text
    assert "\ttab\nline" in text
