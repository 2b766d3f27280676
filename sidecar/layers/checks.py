"""Checks that a rule can ask for by name (`validate:`), for data that carries its own proof."""

from __future__ import annotations

from collections.abc import Callable

from stdnum import iban, luhn


def _luhn(text: str) -> bool:
    digits = "".join(c for c in text if c.isdigit())
    return len(set(digits)) > 1 and bool(luhn.is_valid(digits))


CHECKS: dict[str, Callable[[str], bool]] = {
    "luhn": _luhn,
    "iban": lambda text: bool(iban.is_valid(text)),
}
"""Name -> whether the text is what it looks like."""
