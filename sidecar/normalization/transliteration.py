"""English written in the letters of another script: Cyrillic, Greek, Hebrew, Georgian, runes, kana.

A run of such a script is read letter by letter. It is a view only if its words are English then, or nearly: real
Russian or Japanese is not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from sidecar.normalization.letters import english_text
from sidecar.normalization.misspellings import CLOSE_WORDS, Change, respelled_text
from sidecar.normalization.normalized_text import NormalizedText, Replacement, assemble
from sidecar.normalization.vocabulary import FUNCTION_WORDS, Vocabulary, english

TRANSLITERATED = "transliterated"
MIN_RUN = 16
MAX_RUNS = 200
MIN_EXACT_SHARE, MIN_FUNCTION_SHARE = 0.2, 0.1
"""Letters in English words of three letters or more, and function words among the words of a run: of 8,600 runs of
Russian, Ukrainian, Bulgarian, Greek and Hebrew in our corpus 12 have both, of English in these letters nine in ten."""
MIN_KANA_WORDS, MAX_KANA_WORD = 5, 12
_LETTERS = {
    "абвгдежзийклмнопрстуфхцчшщъыьэюяіє": "a b v g d e zh z i i k l m n o p r s t u f h c ch sh sh ' y ' e yu ya i e",
    "αβγδεζηθικλμνξοπρστυφχψω": "a v g d e z i th i k l m n x o p r s t u f h ps o",
    "אבגדהוזחטיכלמנסעפצקרשתםןףץך": "a b g d h o z h t i x l m n s e p c k r sh t m n p c k",
    "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ": "a b g d e v z t i k l m n o p zh r s t u f k g y sh ch c z w ch x j h",
    "ᚨᛒᚲᛞᛖᚠᚷᚺᛁᛃᛚᛗᚾᛟᛈᚱᛊᛏᚢᚹᛪᛉᚦᛜᛋ": "a b k d e f g h i j l m n o p r s t u w x z th ng s",
}
_TABLE = {
    ord(letter): latin for letters, row in _LETTERS.items() for letter, latin in zip(letters, row.split(), strict=True)
}
_TABLE |= {ord("ς"): "s", ord("ー"): "", ord("’"): "'"}
_PAIRS = (("кс", "x"), ("μπ", "b"), ("ντ", "d"), ("ου", "ou"), ("γκ", "g"))
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_SCRIPT = "\u0370-\u03ff\u0400-\u045f\u05d0-\u05ea\u10d0-\u10f0\u16a0-\u16ea\u3041-\u3096\u30a1-\u30fc"
_RUN = re.compile(rf"[{_SCRIPT}](?:[{_SCRIPT}]|[^\w{_SCRIPT}]{{1,4}}(?=[{_SCRIPT}])){{{MIN_RUN - 1},}}")
"""No character may be both letter and gap, or the search takes exponential time: the ranges hold marks, too."""


def transliterated(view: NormalizedText) -> NormalizedText | None:
    """The view with English runs of other scripts in Latin letters, if it has any."""
    if view.text.isascii():
        return None
    runs = [*_RUN.finditer(view.text)][:MAX_RUNS]
    replacements = [Replacement(*run.span(), text) for run in runs if (text := _english(run.group()))]
    return assemble(view, TRANSLITERATED, replacements, hidden=True)


def _english(run: str) -> str | None:
    latin = _latin(run.lower())
    if not (_is_spaced_kana(run) or _has_english_words(latin)):
        return None
    return english_text(latin.split()) or respelled_text(latin, _CHANGES)


def _is_spaced_kana(run: str) -> bool:
    """Syllables spell no word exactly; but Japanese is written without spaces."""
    words = run.split()
    return bool(_KANA.match(run)) and len(words) >= MIN_KANA_WORDS and len(run) <= MAX_KANA_WORD * len(words)


def _has_english_words(latin: str) -> bool:
    """Whether enough words are English as they stand, and some of them function words."""
    words = [word for word in (word.strip(".,;:!?'\"()-–—") for word in latin.split()) if word]
    exact = sum(len(word) for word in words if len(word) > 2 and word in english().ranks)
    functional = sum(word in FUNCTION_WORDS for word in words)
    return exact >= MIN_EXACT_SHARE * sum(map(len, words)) and functional >= MIN_FUNCTION_SHARE * len(words)


def _latin(run: str) -> str:
    for pair, latin in _PAIRS:
        run = run.replace(pair, latin)
    return _KANA.sub(_romaji, run.translate(_TABLE))


def _romaji(match: re.Match[str]) -> str:
    """The syllable of a kana, by its name in Unicode."""
    return unicodedata.name(match.group()).rpartition(" ")[2].lower()


def _sound(word: str, vocabulary: Vocabulary) -> str | None:
    return vocabulary.by_sound(word)


_CHANGES: Sequence[Change] = (*CLOSE_WORDS, _sound)
