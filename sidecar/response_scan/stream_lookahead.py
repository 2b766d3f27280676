"""How much of a running text may go: what cannot be the beginning of anything that an answer is looked at for.

Three things wait. Words that stand in the system prompt in that order, up to the end of the text: they may become a
run of it. A token that is no plain word (digits, signs, odd spelling: personal data, secrets and disguises are made
of such), until enough plain words have followed that a look has seen what it belongs to. And the last two words:
one is not complete, and one may lead up to a number.

Words are compared by the steps between their letters, which rotations, Atbash and writing backwards leave as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import re2

from sidecar.normalization import View, folding
from sidecar.response_scan.leaks import DENSE, words_of

AFTER = 48
"""Characters of plain words after which what stands before them is no part of what comes."""
LONGEST = 512
"""Characters that are read in a few milliseconds; what comes in larger pieces waits for the whole window."""
SHORT = 24
"""Characters of the longest token that is read as a word, or passed at all without the whole window."""
REMEMBERED = 1024
"""Tokens of which is remembered what they are, for as long as an answer is looked at."""
_MOST_WORDS = 0xD000
_DENSE_LETTER = re2.compile(f"[{DENSE}]")
_BLANKS = re.compile(r"\S+")
_TOKEN = re2.compile(rf"[{DENSE}]|[^\s{DENSE}]+")
_EDGES = "\"'“”‘’«»„()[]{}.,;:!?…*_~`#>|–—、。，；：！？「」-"
_WORD = re2.compile(r"\pL[\pL\pM]*(?:['’]\pL+)*")
_CAMEL = re2.compile(r"\p{Ll}\p{Lu}")
_MARKED = re2.compile(r"[A-Za-z]\pM")


class Kind(NamedTuple):
    """What a stretch without blanks is, or one character of a script without them.

    `letters`: of its word, if it is plain. `words`: their codes in the system prompt, empty for others, and weights.
    `spelled`: what of it may be part of a canary.
    """

    plain: bool
    letters: int
    words: tuple[tuple[str, int], ...] = ()
    spelled: str = ""


class Token(NamedTuple):
    """A stretch in its place."""

    start: int
    end: int
    kind: Kind


class Beginnings:
    """What may begin in answers to one request. `words`: how many of the system prompt in a row are a find."""

    def __init__(self, system_prompt: str | None, *, words: int, canary: str | None = None) -> None:
        self._wanted = 2 * words
        self._codes: dict[object, str] = {}
        self._known: dict[str, Kind] = {}
        prompt_words = [word for word, _ in words_of(_folded(system_prompt or "")) if not word[0].isdigit()]
        for word in prompt_words:
            self._codes.setdefault(_steps(word), chr(1 + min(len(self._codes), _MOST_WORDS)))
        line = "".join(self._codes[_steps(word)] for word in prompt_words)
        self._line = f"{line}\0{line[::-1]}"
        self._canary = "".join(word for word, _ in words_of(canary or ""))

    def free(self, text: str) -> tuple[int, bool]:
        """How many characters of a text that goes on may go, and whether it must be looked at before.

        A text handed in again without what was free says the same of the rest. Of a long one nothing is free.
        """
        if len(text) > LONGEST:
            return 0, False
        tokens, complete = self._tokens(text)
        waits, passed = _waiting(tokens[:complete])
        before = [token for token in tokens[:complete] if token.end <= waits]
        run, quoted = self._run(before, len(text))
        begun, named = self._canary_begins(tokens, len(text))
        held = [waits, *(token.start for token in tokens[complete:]), *(token.start for token in before[-1:])]
        limit = min([*held, run, begun, len(text)])
        return limit, quoted or named or passed < limit

    def _tokens(self, text: str) -> tuple[list[Token], int]:
        """All tokens, and how many of them are complete."""
        hits = _BLANKS.finditer(text) if text.isascii() else _TOKEN.finditer(_encodable(text))
        tokens = [Token(hit.start(), hit.end(), self._kind(hit.group())) for hit in hits]
        cut_off = bool(tokens) and tokens[-1].end == len(text) and not _is_dense(text[-1])
        return tokens, len(tokens) - cut_off

    def _kind(self, text: str) -> Kind:
        """What a token is; remembered, since a token is met again with every piece that follows it."""
        kind = self._known.get(text)
        if kind is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            kind = self._known[text] = self._read(text)
        return kind

    def _read(self, text: str) -> Kind:
        kind = _kind(text)
        if kind.plain and self._codes:
            words = ((self._codes.get(_steps(word), ""), weight) for word, weight in words_of(_folded(text)))
            kind = kind._replace(words=tuple(words))
        return kind._replace(spelled="".join(word for word, _ in words_of(text))) if self._canary else kind

    def _run(self, tokens: Sequence[Token], end: int) -> tuple[int, bool]:
        """Where the run of words begins that ends here and stands in the system prompt; whether one was a find."""
        run: list[tuple[str, int, int]] = []
        for token in tokens:
            for code, weight in token.kind.words:
                run.append((code, token.start, weight))
                while run and not (code and "".join(member for member, _, _ in run) in self._line):
                    run.pop(0)
                if sum(heavy for _, _, heavy in run) >= self._wanted:
                    return run[0][1], True
        return (run[0][1] if run else end), False

    def _canary_begins(self, tokens: Sequence[Token], end: int) -> tuple[int, bool]:
        """Where the longest beginning of the canary begins that the text ends with; whether all of it is there."""
        joined, ends = "", []
        for token in tokens if self._canary else ():
            joined += token.kind.spelled
            ends.append((len(joined), token.start))
        whole = bool(self._canary) and self._canary in joined
        for size in range(min(len(self._canary), len(joined)), 0, -1):
            if joined.endswith(self._canary[:size]):
                return next(start for until, start in ends if until > len(joined) - size), whole
        return end, whole


def _kind(text: str) -> Kind:
    word, short = text.strip(_EDGES), len(text) <= SHORT
    if word.isascii() and word.isalpha():
        return Kind(short and (word.islower() or word.isupper() or word.istitle()), len(word))
    if not word:
        return Kind(short, 0)
    odd = _CAMEL.search(word) or _MARKED.search(word) or unicodedata.normalize("NFKC", word) != word
    return Kind(short and bool(_WORD.fullmatch(word)) and not odd, 2 if _is_dense(word) else len(word))


def _is_dense(text: str) -> bool:
    return not text.isascii() and bool(_DENSE_LETTER.fullmatch(text))


def _waiting(tokens: Sequence[Token]) -> tuple[int, int]:
    """From where on tokens wait that are no plain words, and where the first of those stands that wait no longer."""
    opened: int | None = None
    passed, quiet, stuck, short = 2**62, 0, False, False
    for start, end, kind in tokens:
        bare = kind.letters < 2
        if not kind.plain or (bare and short):  # letters apart, or signs in a row
            opened = start if opened is None else opened
            quiet, stuck = end, stuck or end - start > SHORT
        elif opened is not None and end - quiet >= AFTER and not stuck:
            passed, opened = min(passed, opened), None
        short = bare
    return (2**62 if opened is None else opened), passed


def _steps(word: str) -> object:
    if not word.isascii():
        return word
    steps = tuple((ord(after) - ord(before)) % 26 for before, after in pairwise(word))
    mirrored = tuple(-step % 26 for step in steps)
    return min(steps, mirrored, steps[::-1], mirrored[::-1])


def _folded(text: str) -> str:
    if text.isascii():
        return text
    read = View(_encodable(text))
    return [read, *folding.readings(read)][-1].text


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
