"""Letters upside down, or spelled out: as numbers, by the radio alphabet, as keys of a telephone, as first letters.

A decoding counts only if its words are English (`vocabulary`): tables of numbers and lists of names are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import re2

from sidecar.normalization.codecs import Codec
from sidecar.normalization.vocabulary import english

MIN_WORDS, MIN_SHARE = 3, 0.7
"""Words of a decoding, and letters of it in English words."""
_KEYPAD = ("abc", "def", "ghi", "jkl", "mno", "pqrs", "tuv", "wxyz")
_KEYS = {
    str(key) * presses: letter for key, letters in enumerate(_KEYPAD, 2) for presses, letter in enumerate(letters, 1)
}
_RADIO_WORD = (
    "(?i:al(?:f|ph)a|bravo|charlie|delta|echo|foxtrot|golf|hotel|india|juliett?|kilo|lima|mike|november|oscar|papa"
    "|quebec|romeo|sierra|tango|uniform|victor|whiske?y|x-?ray|yankee|zulu)"
)
_WORD_BREAK = re2.compile(r"\s*[/|;]\s*|\n| {2,}|, ?(?:space|stop),? ")
_PIECES = re2.compile(r"\pL+|\d+")
_LINE_LABEL = re2.compile(r"^[\s\d.):*>-]*")
_NUMBER = r"(?:1[0-9]|2[0-6]|[1-9])"

MAX_CELLS = 20_000
"""Cells of a table of characters: one long line among many short ones would be read for each of them."""


_TURNED = str.maketrans("ɐqɔpǝɟƃɓɥᴉıɾʞןɯudbɹʇnʌʍʎ˙'¿¡", "abcdefgghiijklmnpqrtuvwy.,?!")
_TURNED_ONLY = "ɐɔǝɟƃɓɥᴉɾʞןɯɹʇʌʍʎ"
"""Turned letters that are no others of English."""
_TURNABLE = _TURNED_ONLY + "ıqpudbnolsxzHINOSXZ˙'¿¡ "


def english_text(words: Iterable[str]) -> str | None:
    """The words as a text, if they are English."""
    words = [word for word in words if word]
    letters = sum(map(len, words))
    known = sum(len(word) for word in words if word.strip(".,;:!?'") in english())
    return " ".join(words) if len(words) >= MIN_WORDS and known >= MIN_SHARE * letters else None


def _upside_down(encoded: str) -> str | None:
    """Turned letters, read from the end."""
    return english_text(encoded[::-1].translate(_TURNED).lower().split())


def _numbers(encoded: str) -> str | None:
    words = [_PIECES.findall(word) for word in _WORD_BREAK.split(encoded)]
    if any(int(number) > 26 for word in words for number in word if number.isdigit()):
        return None
    letters = ["".join(chr(96 + int(n)) if n.isdigit() else n for n in word if n != "0") for word in words]
    return english_text(letters) or _segmented("".join(letters))


def _radio(encoded: str) -> str | None:
    letters = ["".join(word[0] for word in _PIECES.findall(group)) for group in _WORD_BREAK.split(encoded.lower())]
    return english_text(letters) or _segmented("".join(letters))


def _keypad(encoded: str) -> str | None:
    words = encoded.replace("/", " 0 ").split(" 0 ")
    return english_text("".join(_KEYS.get(key, "") for key in word.split()) for word in words)


def _acrostic(encoded: str) -> str | None:
    """First letters: of the words of each line, or of the lines."""
    _, _, rest = encoded.partition("\n") if "\n" in encoded else encoded.partition(":")
    lines = [[word[0] for word in _PIECES.findall(_LINE_LABEL.sub("", line))] for line in rest.lower().splitlines()]
    firsts = "".join(line[0] for line in lines if line)
    words = ["".join(line) for line in lines]
    return english_text(words) or _segmented("".join(words)) or _segmented(firsts)


def _segmented(letters: str) -> str | None:
    return english_text(english().segmented(letters) or ()) if letters.isalpha() else None


def _rails(encoded: str) -> str | None:
    """A fence of two rails, the rails one after the other."""
    _, _, rest = encoded.partition(":")
    rest = rest.strip()
    first, bar, second = rest.partition("|")
    if not bar:
        first, second = rest[: (len(rest) + 1) // 2], rest[(len(rest) + 1) // 2 :]
    text = "".join(sign for pair in zip(first, second + " ", strict=False) for sign in pair)
    return text if english_text(text.lower().split()) else None


def _columns(encoded: str) -> str | None:
    """Lines of single characters, read from top to bottom."""
    rows = [line.split(" ") for line in encoded.splitlines()]
    width = max(map(len, rows))
    if width * len(rows) > MAX_CELLS:
        return None
    words = ["".join(row[at] for row in rows if at < len(row)).rstrip(".-_") for at in range(width)]
    return english_text(word.lower() for word in words)


CODECS: Sequence[Codec] = (
    Codec("turned", rf"[{_TURNABLE}]{{12,}}", _upside_down, rf"(?:[{_TURNED_ONLY}][^\n]{{0,8}}){{4}}"),
    Codec(
        "numbers",
        rf"(?:\b(?:{_NUMBER}|[a-z.,;:!?'])[-., ]{{0,2}}(?:\s?[/|\n]\s?| {{2,4}})?){{9,}}",
        _numbers,
        rf"(?:\b{_NUMBER}[-., ]{{1,2}}(?:[/|] )?){{6}}",
    ),
    Codec(
        "radio",
        rf"(?:\b{_RADIO_WORD}\b[^\pL\n]{{0,4}}\n?){{6,}}",
        _radio,
        rf"(?:\b{_RADIO_WORD}\b[^\pL]{{1,4}}){{4}}",
    ),
    Codec(
        "keypad",
        r"(?:\b(?:2{1,3}|3{1,3}|4{1,3}|5{1,3}|6{1,3}|7{1,4}|8{1,3}|9{1,4}|0|[.,;:!?'])(?: |\s?/\s?|$)?){9,}",
        _keypad,
        r"\b(?:22|33|44|55|66|77|88|99)[0-9]{0,2} [0-9 ]{12}",
    ),
    Codec(
        "acrostic",
        r"(?i)\b(?:first|initial) (?:letter|character)s?\b[^\n]{0,80}\n(?:[^\n]+(?:\n|\z)){2,}",
        _acrostic,
        r"(?i)\b(?:first|initial) (?:letter|character)s?\b",
    ),
    Codec("rails", r"(?i)\brail[ -]?fence\b[^\n:]{0,40}:[^\n]{10,}", _rails, r"(?i)\brail[ -]?fence"),
    Codec("columns", r"(?m)(?:^[^\s](?: [^\s])+ ?\n){2,}[^\s](?: [^\s])+", _columns, r"(?m)(?:^\S(?: \S){2,} ?\n){2}"),
)
