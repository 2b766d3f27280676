"""Where the strings of a request body are after extraction, for tests of the protocols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sidecar.extraction.dialect_fields import fields_of
from sidecar.extraction.extraction import Extraction, extract
from sidecar.types import Source


def strings(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, name of the field, and text of every string value in a body."""
    if isinstance(value, str):
        yield path, name, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from strings(child, f"{path}.{key}".lstrip("."), key)
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from strings(child, f"{path}.{number}", name)


def read(body: dict[str, Any], operation: str, dialect: str) -> Extraction:
    """The texts of a body."""
    return extract(body, operation, dialect)


def source_of(extraction: Extraction, text: str) -> Source | None:
    """The source of the first segment that holds this text."""
    return next((segment.source for segment in extraction.segments if text in segment.text), None)


def without_source(body: dict[str, Any], operation: str, dialect: str) -> list[str]:
    """The paths of strings that are in no segment, although they are neither an enum value nor an ignored id."""
    extraction, fields = read(body, operation, dialect), fields_of(dialect)
    return [
        path
        for path, name, text in strings(body)
        if text
        and source_of(extraction, text) is None
        and text not in fields.enums.get(name, ())
        and _pattern(path) not in fields.ids
        and path not in {part.path for part in extraction.unscannable if part.kind == "media"}
    ]


def _pattern(path: str) -> str:
    return "".join("[]" if part.isdigit() else f".{part}" for part in path.split(".")).lstrip(".")


def paths(body: dict[str, Any]) -> list[str]:
    """The paths of all strings."""
    return [path for path, _, _ in strings(body)]


def attacked(body: dict[str, Any], attack: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each string's path, and a copy of the body with the attack in its place."""
    for path in paths(body):
        yield path, _replaced(body, path.split("."), attack)


def _replaced(value: Any, keys: list[str], attack: str) -> Any:
    if not keys:
        return attack
    if isinstance(value, list):
        return [_replaced(item, keys[1:], attack) if n == int(keys[0]) else item for n, item in enumerate(value)]
    return {key: _replaced(item, keys[1:], attack) if key == keys[0] else item for key, item in value.items()}
