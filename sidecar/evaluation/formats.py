"""Reads files of labelled texts in the forms that evaluators have: JSON lines, CSV with a head, and plain lines.

Every form gives the objects of `sidecar.evaluation.rows`, each with the number of its line.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sidecar.errors import ConfigError
from sidecar.util import json

Numbered = tuple[int, Any]
ATTACK, BENIGN = "attack", "benign"
WORDS = {ATTACK: True, BENIGN: False, "1": True, "0": False}
"""What `label` may say, and whether it means an attack."""
LINES = (".txt", ".txt.gz")
MAX_CELL = 64 * 1024 * 1024
"""Characters of one cell of a CSV file."""


MAX_NAME, MAX_NAMES = 30, 6
"""What an error quotes of a head that is none."""


class Unreadable(NamedTuple):
    """A line that is no JSON."""

    reason: str


def read_values(path: Path, label: str | None = None) -> Iterator[Numbered]:
    """The objects of a file; `label` is that of plain lines, and of objects without one.

    A line that is no JSON is `Unreadable`. Raises `ConfigError` if the file cannot be read.
    """
    name = path.name.removesuffix(".gz")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} cannot be read", [getattr(error, "strerror", None) or str(error)]) from None
    if name.endswith(".csv"):
        yield from ((number, _with_label(value, label)) for number, value in _cells(path, content))
    elif name.endswith(LINES):
        yield from ((number, _with_label({"text": text}, label)) for number, text in _texts(path, content))
    else:
        lines = enumerate(content.split(b"\n"), 1)
        yield from ((number, _with_label(_parsed(line), label)) for number, line in lines if line.strip())


def _parsed(line: bytes) -> Any:
    """The value of a line, or why it has none: other lines are read all the same."""
    try:
        return json.loads(line)
    except json.DecodeError as error:
        return Unreadable(f"no JSON: {error}")


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} cannot be read", [f"not UTF-8 at byte {error.start}"]) from None


def _texts(path: Path, content: bytes) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(_decoded(path, content).split("\n"), 1):
        if line.strip():
            yield number, line.removesuffix("\r")


def _cells(path: Path, content: bytes) -> Iterator[Numbered]:
    csv.field_size_limit(MAX_CELL)
    reader = csv.DictReader(io.StringIO(_decoded(path, content), newline=""), strict=True)
    if "text" not in (reader.fieldnames or ()):
        raise ConfigError(
            f"{path} cannot be read",
            [f"the first line must name the columns: text, label, ...; it names {_quoted(reader.fieldnames)}"],
        )
    try:
        for value in reader:
            cells = {name: cell for name, cell in value.items() if name and cell not in {None, ""}}
            yield reader.line_num, {"text": "", **cells}
    except csv.Error as error:
        raise ConfigError(f"{path} cannot be read", [f"line {reader.line_num + 1}: {error}"]) from None


def _quoted(names: Sequence[str] | None) -> str:
    """The first columns, so that a wrong separator or a missing head is seen; not a whole text."""
    shown = [repr(name[:MAX_NAME]) for name in (names or ())[:MAX_NAMES]]
    return ", ".join(shown) or "none"


def _with_label(value: Any, label: str | None) -> Any:
    if label is None or not isinstance(value, dict) or {"label", "labels", "benign"} & value.keys():
        return value
    return {**value, "label": label}
