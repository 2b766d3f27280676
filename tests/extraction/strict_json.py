"""A slow JSON parser that follows the grammar strictly: the reference for the fast parser."""

from __future__ import annotations

from typing import Any

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")


class NotStrictError(Exception):
    """The document is invalid or ambiguous."""


def read(raw: bytes, *, depth: int) -> Any:
    """Parse the value; `NotStrictError` if invalid, with duplicate names, beyond 64 bits, infinite, or too deep."""
    try:
        reader = _Reader(raw.decode("utf-8"), depth)
        value = reader.value(0)
    except UnicodeDecodeError:
        raise NotStrictError("not UTF-8, or half a surrogate pair") from None
    reader.space()
    if reader.at != len(reader.text):
        raise NotStrictError("more after the value")
    return value


class _Reader:
    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = depth

    def space(self) -> None:
        while self.text[self.at : self.at + 1] in set(" \t\n\r"):
            self.at += 1

    def take(self, literal: str) -> bool:
        present = self.text.startswith(literal, self.at)
        self.at += len(literal) if present else 0
        return present

    def need(self, literal: str) -> None:
        if not self.take(literal):
            raise NotStrictError(f"expected {literal!r}")

    def value(self, level: int) -> Any:
        self.space()
        for word, value in (("null", None), ("true", True), ("false", False)):
            if self.take(word):
                return value
        if self.take('"'):
            return self.string()
        if self.text[self.at : self.at + 1] in {"{", "["}:
            if level == self.depth:
                raise NotStrictError("too deep")
            return self.object(level) if self.take("{") else self.array(level)
        return self.number()

    def object(self, level: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self.space()
        if self.take("}"):
            return members
        while True:
            self.space()
            self.need('"')
            name = self.string()
            if name in members:
                raise NotStrictError("twice")
            self.space()
            self.need(":")
            members[name] = self.value(level + 1)
            self.space()
            if self.take("}"):
                return members
            self.need(",")

    def array(self, level: int) -> list[Any]:
        self.need("[")
        items: list[Any] = []
        self.space()
        if self.take("]"):
            return items
        while True:
            items.append(self.value(level + 1))
            self.space()
            if self.take("]"):
                return items
            self.need(",")

    def digits(self) -> str:
        start = self.at
        while self.text[self.at : self.at + 1] in _DIGITS:
            self.at += 1
        if start == self.at:
            raise NotStrictError("no digits")
        return self.text[start : self.at]

    def number(self) -> int | float:
        start, is_integer = self.at, True
        self.take("-")
        if not self.take("0"):
            self.digits()
        if self.take("."):
            is_integer = bool(self.digits()) and False
        if self.take("e") or self.take("E"):
            is_integer = False
            _ = self.take("+") or self.take("-")
            self.digits()
        text = self.text[start : self.at]
        if not is_integer:
            number = float(text)
            if number in {float("inf"), float("-inf")}:
                raise NotStrictError("infinite")
            return number
        if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
            raise NotStrictError("beyond 64 bits")
        return int(text)

    def string(self) -> str:
        units: list[str] = []
        while not self.take('"'):
            char = self.text[self.at : self.at + 1]
            self.at += 1
            if char == "" or ord(char) < 0x20:
                raise NotStrictError("control character or end")
            units.append(self.escape() if char == "\\" else char)
        # JSON escapes are UTF-16: a surrogate pair becomes one character, a lone surrogate is an error.
        return "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le")

    def escape(self) -> str:
        char = self.text[self.at : self.at + 1]
        self.at += 1
        if char == "u":
            code = self.text[self.at : self.at + 4]
            self.at += 4
            if len(code) != 4 or not set(code) <= _HEX:
                raise NotStrictError("no four hex digits")
            return chr(int(code, 16))
        if char not in _ESCAPES:
            raise NotStrictError("unknown escape")
        return _ESCAPES[char]
