"""Separators: the letters of a text, each apart from the next."""

from __future__ import annotations

import json

from sidecar.harden.disguises.common import each_letter


def bullets(text: str) -> str:
    """Every sign apart by a bullet."""
    return "•".join(text)


def plus_signs(text: str) -> str:
    """Every sign apart by a plus sign."""
    return "+".join(text)


def hearts(text: str) -> str:
    """Every sign apart by a heart emoji."""
    return "❤️".join(text)


def arrows(text: str) -> str:
    """Every sign apart by an arrow between blanks."""
    return " → ".join(text)


def ansi_resets(text: str) -> str:
    """An ANSI reset code behind every sign."""
    return "".join(sign + "\x1b[0m" for sign in text)


def ansi_colours(text: str) -> str:
    """Every sign in another ANSI colour."""
    return "".join(f"\x1b[{31 + at % 6}m{sign}" for at, sign in enumerate(text)) + "\x1b[0m"


def nbsp_entities(text: str) -> str:
    """A non-breaking blank as an entity between signs."""
    return "&nbsp;".join(text)


def zero_width_entities(text: str) -> str:
    """A zero-width blank as a numeric entity between signs."""
    return "&#8203;".join(text)


def json_letters(text: str) -> str:
    """A JSON list of the signs."""
    return json.dumps(list(text))


def python_letters(text: str) -> str:
    """A Python list of the signs, with the call that joins it."""
    return f"''.join({list(text)!r})"


def bracketed(text: str) -> str:
    """Every letter in brackets."""
    return each_letter(text, lambda sign: f"[{sign}]")


def claps_between_words(text: str) -> str:
    """A clap emoji between words."""
    return " 👏 ".join(text.split())


def claps_between_letters(text: str) -> str:
    """A clap emoji between signs."""
    return "👏".join(text)


def varied_signs(text: str) -> str:
    """Another sign behind each letter."""
    return "".join(sign + "#*%=^~"[at * 7 % 6] for at, sign in enumerate(text))


def quoted_letters(text: str) -> str:
    """Every letter in quotation marks, with commas."""
    return " / ".join(", ".join(f'"{sign}"' for sign in word) for word in text.split())


def commas_and_semicolons(text: str) -> str:
    """Commas between letters, semicolons between words."""
    return "; ".join(",".join(word) for word in text.split())
