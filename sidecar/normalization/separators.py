"""Words whose letters are apart, or which are broken: by signs, emoji, terminal codes, tags, entities.

The class is the repetition and not the sign: `separated` is a run of single letters with the same gap after each (or
with any gap of a few characters), `broken` a run of words with junk inside them. Both are read by the model, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import re2

from sidecar.normalization.codecs import Codec

_LETTERS = (
    r"A-Za-z\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{2c1}\x{300}-\x{374}\x{376}-\x{37d}\x{37f}-\x{559}\x{560}-\x{588}"
    r"\x{591}-\x{5bd}\x{5c7}-\x{5f2}\x{610}-\x{61a}\x{620}-\x{669}\x{66e}-\x{6d3}\x{6d5}-\x{6ff}\x{710}-\x{963}"
    r"\x{966}-\x{135a}\x{1380}-\x{1fff}\x{3040}-\x{309a}\x{309d}-\x{30fa}\x{30fd}-\x{318e}\x{3400}-\x{d7a3}"
)
"""Without the punctuation of these scripts."""
_LETTER, _CHARACTER = f"[{_LETTERS}]", f"[{_LETTERS}0-9]"
"""Not all letters of Unicode, whose class is a thousand instructions each time."""
_CODE = r"<[^<>\n]*>|&#?[0-9A-Za-z]+;|\x{1b}\[[0-9;]*[A-Za-z]|\\[a-z]+\{"
"""A tag, an entity, a terminal code, or a command of LaTeX."""
_GAP = rf"(?:{_CODE}|[^{_LETTERS}0-9])"
MIN_LETTERS, MAX_GAP, MIN_WORD = 9, 20, 3.4
"""Letters of a run, signs and codes between two of them, and the mean length of its words with the space."""
MIN_LETTER_SHARE, MIN_GAP_SHARE = 0.6, 0.6
"""Letters among letters and digits, and the commonest gap among gaps, in a run whose gaps are the same."""
_CODE_POINT = re.compile(r"\\x\{([0-9a-f]+)\}")
_UNITS = re.compile(
    _CODE_POINT.sub(lambda point: re.escape(chr(int(point[1], 16))), rf"({_CHARACTER})({_GAP}{{0,{MAX_GAP}}})")
)
"""Not RE2: a run has up to a million units, and this is ten times faster. Nothing follows a gap, so no match is
tried twice."""
_CODES = re2.compile(_CODE)
_TERMINAL_CODE, _CODE_SIGN = re2.compile(r"\x{1b}\[[0-9;]*[A-Za-z]"), "\x1b"
"""They differ from letter to letter: all are taken as one sign."""
_PUNCTUATION = frozenset(".,;:!?'")
_EMPHASIS = r"(?:\*{1,3}|`{1,2}|~~|__)"
_INLINE = r"</?(?i:b|i|u|s|em|strong|span|font|wbr|a|mark|small|big|sub|sup|code|ins|del|tt|x)(?:\s[^<>\n]{0,60})?/?>"
_TAG = (
    rf"(?:{_INLINE}"
    r"|<!--[^<>\n]*-->|&(?i:shy|zwj|zwnj|zerowidthspace|nobreak|#[0-9]+|#x[0-9a-f]+);"
    rf"|\{{\}}|\[/?[a-z]{{1,4}}\]|\x{{1b}}\[[0-9;]{{0,9}}m|<!\[CDATA\[|\]\]>|{_EMPHASIS})"
)
_SIGN = r"[~/^|\\+•·=#%•:;,\x{2010}-\x{2027}]"
_BROKEN_WORD = rf"{_TAG}*{_LETTER}+(?:(?:{_TAG}+{_LETTER}+)+{_TAG}*|(?:{_INLINE}){{2,}}|`{{3}})"
"""With what surrounds it; the short words of such a text have empty elements or code signs behind them."""
_SIGN_WORD = rf"{_LETTER}{{1,3}}(?:{_SIGN}{_LETTER}{{1,3}})+"
_BETWEEN_WORDS = rf"[\s.,;:!?]{{1,3}}(?:{_LETTER}+[\s.,;:!?]{{1,3}}){{0,2}}"
_TAGS = re2.compile(_TAG)
_INNER_SIGN = re2.compile(rf"({_LETTER}){_SIGN}")


def _separated(encoded: str) -> str | None:
    """The words; None if they are few, or most characters are no letters."""
    units: list[tuple[str, str]] = _UNITS.findall(_TERMINAL_CODE.sub(_CODE_SIGN, encoded))
    letters = sum(letter.isalpha() for letter, _ in units)
    if letters < max(MIN_LETTERS, MIN_LETTER_SHARE * len(units)):
        return None
    gaps = Counter(gap for _, gap in units[:-1])
    common, count = gaps.most_common(1)[0]
    if count < MIN_GAP_SHARE * (len(units) - 1):
        return _words("".join(letter + " " * any(map(str.isspace, gap)) for letter, gap in units))
    spaced = (gap for gap, _ in gaps.most_common() if gap != common and any(map(str.isspace, gap)))
    space = next(spaced, None)
    return _words("".join(letter + _between_letters(gap, common, space) for letter, gap in units))


def _words(text: str) -> str | None:
    """The text, if its words are not all short as those of code."""
    text = text.strip()
    return text if len(text) >= MIN_WORD * len(text.split()) else None


def _between_letters(gap: str, common: str, space: str | None) -> str:
    """What a gap leaves: nothing if it is the common one, a space between words, and punctuation."""
    if gap == common or not gap:
        return ""
    if gap == space:
        return " "
    rest = _CODES.sub("", gap.removeprefix(common).removesuffix(common))
    punctuation = [sign for sign in rest if sign in _PUNCTUATION and sign not in common]
    return punctuation[0] + " " * any(map(str.isspace, rest)) if punctuation else " "


def _broken(encoded: str) -> str | None:
    """Words without the codes inside them."""
    return " ".join(map(_without_signs, _TAGS.sub("", encoded).split()))


def _without_signs(word: str) -> str:
    """A word without the signs inside it; its last character may be one."""
    inner: str = _INNER_SIGN.sub(r"\1", word[:-1])
    return inner + word[-1:]


CODECS: Sequence[Codec] = (
    Codec(
        "separated",
        rf"(?:{_CHARACTER}{_GAP}{{1,{MAX_GAP}}}){{3,}}{_CHARACTER}",
        _separated,
        rf"(?:{_LETTER}{_GAP}{{1,9}}){{5}}{_LETTER}",
    ),
    Codec(
        "broken",
        rf"{_BROKEN_WORD}|(?:{_SIGN_WORD}{_BETWEEN_WORDS}){{2,}}{_SIGN_WORD}",
        _broken,
        rf"(?s)(?:{_LETTER}{_TAG}{{1,2}}{_LETTER}.*){{3}}|(?:\b{_SIGN_WORD}{_BETWEEN_WORDS}){{2}}{_SIGN_WORD}",
    ),
)
