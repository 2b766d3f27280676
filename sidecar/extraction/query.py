"""Extracts segments from the query of a request target: its names and values that hold words.

An upstream may put them into a prompt. Ids, versions, flags and credentials are what a query usually holds; a value in
the form of an id is text only if it is a sentence whose words stand apart by signs (`holds_words`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from sidecar.errors import BodyError
from sidecar.extraction.extraction import Extraction
from sidecar.extraction.field_table import ENUMS, holds_words
from sidecar.extraction.walker import shown_name
from sidecar.types import Segment, Source

MAX_DECODINGS = 3
"""How often percent-encoding is undone."""
_SEPARATOR = re.compile(r"[&;]")
_TEXT = re.compile(r"\S\s+\S|[^\x00-\x7f]")
"""A blank between signs, or letters of another script."""


def extract_query(query: str) -> Extraction:
    """The texts of a query as received. Raises `BodyError` (encoding, 415) if it is not UTF-8 when decoded."""
    return Extraction(segments=tuple(_segments(query)))


def _segments(query: str) -> Iterator[Segment]:
    for field in _SEPARATOR.split(query):
        name, value = map(_decoded, field.partition("=")[::2])
        path = f"query.{shown_name(name)}"
        if _is_text(name):
            yield Segment(name, Source.USER, path)
        if _is_text(value) and value not in ENUMS.get(name.removesuffix("[]"), ()):
            yield Segment(value, Source.USER, path)


def _decoded(part: str) -> str:
    """The text behind percent-encoding, also where it was applied several times."""
    text = _unquoted(part.replace("+", " "))
    for _ in range(MAX_DECODINGS - 1):
        if "%" not in text:
            break
        text = unquote_to_bytes(text).decode(errors="replace")
    return text


def _unquoted(part: str) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise BodyError("encoding", "The query is not UTF-8.", status=415) from None


def _is_text(text: str) -> bool:
    return _TEXT.search(text) is not None or holds_words(text)
