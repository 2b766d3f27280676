"""Look-ahead for streamed responses: how many characters can be released because no match can start in them.

Three things are held. Words at the end of the text that are consecutive in the system prompt: the next words may
complete a run. A token that is not a plain word (digits, symbols, unusual spelling: what personal data, secrets and
obfuscated text consist of), until enough plain words follow that a scan has seen its context. The last two words: one
is incomplete, and one may introduce a number.

Words are compared by the differences between adjacent letters, which are invariant under rotation, Atbash and reversal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import re2

from sidecar.normalization import NormalizedText, folding
from sidecar.response_scan.leaks import DENSE, words_of

CONTEXT_AFTER = 48
"""Characters of plain words after which a held token cannot be part of a match that is still open."""
MAX_CHARACTERS = 512
"""Characters that can be analysed within a few milliseconds; larger pieces wait for the full hold."""
MAX_WORD = 24
"""Characters of the longest token read as a word; a longer one is released only after the full hold."""
MAX_CACHED_KINDS = 1024
"""Tokens whose kind is cached while a response is scanned."""
_MAX_CODES = 0xD000
_DENSE_LETTER = re2.compile(f"[{DENSE}]")
_BLANKS = re.compile(r"\S+")
_TOKEN = re2.compile(rf"[{DENSE}]|[^\s{DENSE}]+")
_PUNCTUATION = "\"'“”‘’«»„()[]{}.,;:!?…*_~`#>|–—、。，；：！？「」-"
_WORD = re2.compile(r"\pL[\pL\pM]*(?:['’]\pL+)*")
_CAMEL = re2.compile(r"\p{Ll}\p{Lu}")
_ACCENTED = re2.compile(r"[A-Za-z]\pM")


class TokenKind(NamedTuple):
    """Classification of a run of non-space characters, or of one character of a script without spaces.

    `letters`: letters of its word, if it is plain. `words`: the codes of its words in the system prompt (empty for
    words that are not in it), with weights. `canary_letters`: the part that may belong to a canary.
    """

    plain: bool
    letters: int
    words: tuple[tuple[str, int], ...] = ()
    canary_letters: str = ""


class Token(NamedTuple):
    """A token and its span."""

    start: int
    end: int
    kind: TokenKind


class StreamLookahead:
    """Look-ahead for one request. `words`: how many consecutive words of the system prompt are a finding."""

    def __init__(self, system_prompt: str | None, *, words: int, canary: str | None = None) -> None:
        self._run_weight = 2 * words
        self._codes: dict[object, str] = {}
        self._kinds: dict[str, TokenKind] = {}
        prompt_words = [word for word, _ in words_of(_folded(system_prompt or "")) if not word[0].isdigit()]
        for word in prompt_words:
            self._codes.setdefault(_letter_steps(word), chr(1 + min(len(self._codes), _MAX_CODES)))
        line = "".join(self._codes[_letter_steps(word)] for word in prompt_words)
        self._prompt_codes = f"{line}\0{line[::-1]}"
        self._canary = "".join(word for word, _ in words_of(canary or ""))

    def releasable_prefix(self, text: str) -> tuple[int, bool]:
        """How many leading characters of an unfinished text can be released, and whether a scan must come first.

        Called again with the unreleased rest, it gives the same result for that rest. Of a text over `MAX_CHARACTERS`
        nothing can be released.
        """
        if len(text) > MAX_CHARACTERS:
            return 0, False
        # Invariant: no match can begin in text[:limit] and end behind it. Each of the limits is the earliest start
        # of one kind of open match, so the minimum is safe for all of them.
        tokens, complete = self._tokens(text)
        held_from, first_passed = _held_from(tokens[:complete])
        context = [token for token in tokens[:complete] if token.end <= held_from]
        run, run_seen = self._prompt_run(context, len(text))
        canary_start, canary_seen = self._canary_prefix(tokens, len(text))
        limits = [held_from, *(token.start for token in tokens[complete:]), *(token.start for token in context[-1:])]
        limit = min([*limits, run, canary_start, len(text)])
        return limit, run_seen or canary_seen or first_passed < limit

    def _tokens(self, text: str) -> tuple[list[Token], int]:
        """All tokens, and how many of them are complete."""
        hits = _BLANKS.finditer(text) if text.isascii() else _TOKEN.finditer(_encodable(text))
        tokens = [Token(hit.start(), hit.end(), self._kind(hit.group())) for hit in hits]
        cut_off = bool(tokens) and tokens[-1].end == len(text) and not _is_dense(text[-1])
        return tokens, len(tokens) - cut_off

    def _kind(self, text: str) -> TokenKind:
        """The kind of a token; cached, since the same token is classified again with every further piece."""
        kind = self._kinds.get(text)
        if kind is None:
            if len(self._kinds) >= MAX_CACHED_KINDS:
                self._kinds.clear()
            kind = self._kinds[text] = self._read(text)
        return kind

    def _read(self, text: str) -> TokenKind:
        kind = _kind(text)
        if kind.plain and self._codes:
            words = ((self._codes.get(_letter_steps(word), ""), weight) for word, weight in words_of(_folded(text)))
            kind = kind._replace(words=tuple(words))
        return kind._replace(canary_letters="".join(word for word, _ in words_of(text))) if self._canary else kind

    def _prompt_run(self, tokens: Sequence[Token], end: int) -> tuple[int, bool]:
        """Start of the run of system prompt words at the end of the text; whether a run reached the limit before."""
        # Invariant: `run` is the longest suffix of the words so far that is consecutive in the system prompt.
        run: list[tuple[str, int, int]] = []
        for token in tokens:
            for code, weight in token.kind.words:
                run.append((code, token.start, weight))
                while run and not (code and "".join(run_code for run_code, _, _ in run) in self._prompt_codes):
                    run.pop(0)
                if sum(run_weight for _, _, run_weight in run) >= self._run_weight:
                    return run[0][1], True
        return (run[0][1] if run else end), False

    def _canary_prefix(self, tokens: Sequence[Token], end: int) -> tuple[int, bool]:
        """Start of the longest canary prefix at the end of the text; whether the whole canary is in it."""
        joined, ends = "", []
        for token in tokens if self._canary else ():
            joined += token.kind.canary_letters
            ends.append((len(joined), token.start))
        whole = bool(self._canary) and self._canary in joined
        for size in range(min(len(self._canary), len(joined)), 0, -1):
            if joined.endswith(self._canary[:size]):
                return next(start for until, start in ends if until > len(joined) - size), whole
        return end, whole


def _kind(text: str) -> TokenKind:
    word, short = text.strip(_PUNCTUATION), len(text) <= MAX_WORD
    if word.isascii() and word.isalpha():
        return TokenKind(short and (word.islower() or word.isupper() or word.istitle()), len(word))
    if not word:
        return TokenKind(short, 0)
    odd = _CAMEL.search(word) or _ACCENTED.search(word) or unicodedata.normalize("NFKC", word) != word
    return TokenKind(short and bool(_WORD.fullmatch(word)) and not odd, 2 if _is_dense(word) else len(word))


def _is_dense(text: str) -> bool:
    return not text.isascii() and bool(_DENSE_LETTER.fullmatch(text))


def _held_from(tokens: Sequence[Token]) -> tuple[int, int]:
    """Offset from which tokens are held because they are not plain words; start of the first one held no longer."""
    # Invariant: `opened` is the start of the group of odd tokens still held, `quiet` the end of its last one.
    # A group closes after CONTEXT_AFTER characters of plain words, unless one token was too long (`stuck`).
    opened: int | None = None
    first_passed, quiet, stuck, short = 2**62, 0, False, False
    for start, end, kind in tokens:
        bare = kind.letters < 2
        if not kind.plain or (bare and short):  # spaced-out letters, or consecutive symbols
            opened = start if opened is None else opened
            quiet, stuck = end, stuck or end - start > MAX_WORD
        elif opened is not None and end - quiet >= CONTEXT_AFTER and not stuck:
            first_passed, opened = min(first_passed, opened), None
        short = bare
    return (2**62 if opened is None else opened), first_passed


def _letter_steps(word: str) -> object:
    if not word.isascii():
        return word
    # Rotation keeps the steps, Atbash negates them, and reversal reverses and negates them: the minimum of the four
    # is the same for all of these forms of a word.
    steps = tuple((ord(after) - ord(context)) % 26 for context, after in pairwise(word))
    mirrored = tuple(-step % 26 for step in steps)
    return min(steps, mirrored, steps[::-1], mirrored[::-1])


def _folded(text: str) -> str:
    if text.isascii():
        return text
    normalized = NormalizedText(_encodable(text))
    return [normalized, *folding.foldings(normalized)][-1].text


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
