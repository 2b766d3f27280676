"""Texts of six languages in Latin letters, as their writers spell them without a keyboard of their own.

Russian, Ukrainian and Greek by a table of letters, Korean by the sounds of its syllables (Revised Romanization, with a
final consonant carried over to a vowel). Chinese needs `pypinyin`, Japanese `pykakasi`, which are not dependencies.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

SYLLABLES, FIRST, VOWELS, FINALS, SILENT = 0xAC00, 19, 21, 28, 11
_LETTERS = {
    "ru": (
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
        "a b v g d e yo zh z i y k l m n o p r s t u f kh ts ch sh shch  y  e yu ya",
    ),
    "uk": (
        "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя’",
        "a b v h g d e ie zh z y i i i k l m n o p r s t u f kh ts ch sh shch  iu ia ",
    ),
    "el": (
        "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐ",
        "a v g d e z i th i k l m n x o p r s s t u f x ps o a e i i o u o i u i",
    ),
}


def _pieces(row: str) -> list[str]:
    return row.split(" ")


_FIRST = _pieces("g kk n d tt r m b pp s ss  j jj ch k t p h")
_VOWELS = _pieces("a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i")
_FINALS = _pieces(" k k ks n nj nh t l lg lm lb ls lt lp lh m p ps t t ng t t k t p t")
_CARRIED = _pieces(" g kk ks n nj n d r lg lm lb ls lt lp r m b ps s ss ng j ch k t p h")


def by_letters(language: str) -> Callable[[str], str]:
    """A function for a language whose letters are replaced one by one."""
    letters, row = _LETTERS[language]
    table = {ord(letter): latin for letter, latin in zip(letters, row.split(" "), strict=True)}
    return lambda text: text.lower().replace("ου", "ou").translate(table)


def korean(text: str) -> str:
    """Syllable by syllable."""
    return "".join(_syllable(letter, text[at + 1 : at + 2]) for at, letter in enumerate(text))


def _syllable(letter: str, following: str) -> str:
    number = ord(letter) - SYLLABLES
    if not 0 <= number < FIRST * VOWELS * FINALS:
        return letter
    first, vowel = divmod(number // FINALS, VOWELS)
    next_first = (ord(following) - SYLLABLES) // (VOWELS * FINALS) if following else -1
    finals = _CARRIED if next_first == SILENT else _FINALS
    return _FIRST[first] + _VOWELS[vowel] + finals[number % FINALS]


def romanizers() -> dict[str, Callable[[str], str]]:
    """The languages that can be written in Latin letters here."""
    found = {language: by_letters(language) for language in _LETTERS} | {"ko": korean}
    if find_spec("pypinyin"):
        pinyin = import_module("pypinyin").lazy_pinyin
        found["zh"] = lambda text: " ".join(pinyin(text))
    if find_spec("pykakasi"):
        kana = import_module("pykakasi").kakasi()
        found["ja"] = lambda text: " ".join(word["hepburn"] for word in kana.convert(text))
    return found
