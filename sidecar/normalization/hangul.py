"""Hangul in single letters (jamo), composed to syllables: decomposed by Unicode, or typed one by one.

Jamo apart by blanks or signs are joined first (`sidecar.normalization.separators`). Laughter and moods ("ㅋㅋㅋ",
"ㅠㅠ") and lists of letters compose to nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from sidecar.normalization.codecs import Codec

MIN_SYLLABLES, MIN_SHARE = 4, 0.7
"""Syllables that a run must give, and their share of its letters."""
_INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_FINALS = "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
_PAIRS = ("ㅗㅏㅘ", "ㅗㅐㅙ", "ㅗㅣㅚ", "ㅜㅓㅝ", "ㅜㅔㅞ", "ㅜㅣㅟ", "ㅡㅣㅢ")
_SYLLABLE = re.compile(rf"([{_INITIALS}])([{_VOWELS}])([{_FINALS}](?![{_VOWELS}]))?")
_JAMO = r"[\x{1100}-\x{1112}\x{1161}-\x{1175}\x{11a8}-\x{11c2}\x{3131}-\x{3163}\x{ffa1}-\x{ffdc}]"


def _composed(encoded: str) -> str | None:
    text = unicodedata.normalize("NFC", encoded)
    if "\uffa0" < max(text) <= "\uffdc":
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text))
    for pair in _PAIRS:
        text = text.replace(pair[:2], pair[2])
    text = _SYLLABLE.sub(_syllable, text)
    letters = sum(map(str.isalpha, text))
    syllables = sum("가" <= letter <= "힣" for letter in text)
    return text if syllables >= max(MIN_SYLLABLES, MIN_SHARE * letters) else None


def _syllable(match: re.Match[str]) -> str:
    initial, vowel, final = match.groups()
    number = _INITIALS.index(initial) * len(_VOWELS) + _VOWELS.index(vowel)
    return chr(0xAC00 + number * 28 + (_FINALS.index(final) + 1 if final else 0))


CODECS: Sequence[Codec] = (Codec("jamo", rf"(?:{_JAMO}{{2,}}[ -@\n]{{0,4}}){{2,}}", _composed, rf"{_JAMO}{{3}}"),)
