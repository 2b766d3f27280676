"""Detects system prompt leaks: a run of the prompt's words, or a canary string.

Words are compared without case and punctuation, and numbers are ignored: a list may number the words. In scripts
without spaces every character counts as half a word. A system prompt shorter than one run cannot be told from common
speech and is never reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

from sidecar.types import Finding, Label, LayerName

QUOTED = "OUT-QUOTED"
CANARY = "OUT-CANARY"
SCORE = 0.95
DENSE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = re2.compile(r"[\pL\pM\pN]+")
_PIECE = re2.compile(rf"[{DENSE}]|[^{DENSE}]+")
_DENSE_CHARACTER = re2.compile(rf"[{DENSE}]")
Words = Sequence[tuple[str, int]]


class Leaks:
    """Leak detector for one system prompt. `words`: how many consecutive words count as a quotation."""

    def __init__(self, system_prompt: str | None, *, words: int, canary: str | None = None) -> None:
        self._run_weight = 2 * words
        self._runs = frozenset(_runs(words_of(system_prompt or ""), self._run_weight))
        self._canary = "".join(word for word, _ in words_of(canary or ""))

    def __bool__(self) -> bool:
        """Whether there is anything to detect."""
        return bool(self._runs or self._canary)

    def find(self, text: str, path: str) -> Iterator[Finding]:
        """At most one finding of each kind. Never raises, whatever the text is."""
        if not self:
            return
        words = words_of(text)
        if self._runs and any(run in self._runs for run in _runs(words, self._run_weight)):
            yield Finding(QUOTED, Label.SYSTEM_PROMPT_EXTRACTION, SCORE, LayerName.RULES, path)
        if self._canary and self._canary in "".join(word for word, _ in words):
            yield Finding(CANARY, Label.SYSTEM_PROMPT_EXTRACTION, SCORE, LayerName.RULES, path)


def _runs(words: Words, weight_limit: int) -> Iterator[int]:
    """A hash for every shortest run that reaches this weight.

    Hashes, because the runs themselves would fill the memory.
    """
    words = [word for word in words if not word[0].isdigit()]
    # Invariant: words[start:end] is the shortest run from `start` whose `weight` reaches the limit.
    end = weight = 0
    for start, (_, first_weight) in enumerate(words):
        while weight < weight_limit and end < len(words):
            weight += words[end][1]
            end += 1
        if weight < weight_limit:
            return
        yield hash(tuple(word for word, _ in words[start:end]))
        weight -= first_weight


def words_of(text: str) -> Words:
    """Case-folded words with their weights: 2, or 1 for a character of a script without spaces."""
    weighted: list[tuple[str, int]] = []
    plain = text if text.isascii() else text.encode("utf-8", "replace").decode()
    for match in _WORD.finditer(plain):
        word = match.group().casefold()
        if word.isascii() or not _DENSE_CHARACTER.search(word):
            weighted.append((word, 2))
        else:
            weighted += [(piece, 1 if _DENSE_CHARACTER.fullmatch(piece) else 2) for piece in _PIECE.findall(word)]
    return weighted
