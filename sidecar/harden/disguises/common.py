"""What several disguises share."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping


def each_word(text: str, change: Callable[[str], str]) -> str:
    """The text with every ASCII word changed."""
    return re.sub(r"[A-Za-z]+", lambda match: change(match[0]), text)


def each_letter(text: str, change: Callable[[str], str]) -> str:
    """The text with every letter changed."""
    return "".join(change(sign) if sign.isalpha() else sign for sign in text)


def by_table(text: str, table: Mapping[str, str]) -> str:
    """The text with the characters of the table replaced, capitals as small letters."""
    return "".join(table.get(sign, table.get(sign.lower(), sign)) for sign in text)


def by_offset(text: str, upper: int, lower: int, digit: int = 0) -> str:
    """ASCII letters (and digits) moved to blocks that begin at these code points."""

    def moved(sign: str) -> str:
        for first, last, start in (("A", "Z", upper), ("a", "z", lower), ("0", "9", digit or ord("0"))):
            if first <= sign <= last:
                return chr(start + ord(sign) - ord(first))
        return sign

    return "".join(map(moved, text))


def b64(text: str) -> str:
    """Base64 of UTF-8."""
    return base64.b64encode(text.encode()).decode()
