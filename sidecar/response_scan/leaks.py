"""Whether an answer gives the system prompt away: a run of its words, or a canary that stands nowhere else.

Words are compared without case and punctuation, and figures do not count: a list may number them. In scripts
that put no blanks between words every character counts as half a word. A system prompt shorter than one run has
nothing that could be told from common speech.
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
_ONE_DENSE = re2.compile(rf"[{DENSE}]")
Words = Sequence[tuple[str, int]]


class Leaks:
    """What one request's answer must not say. `words`: how many in a row count as quoting."""

    def __init__(self, system_prompt: str | None, *, words: int, canary: str | None = None) -> None:
        self._wanted = 2 * words
        self._runs = frozenset(_runs(words_of(system_prompt or ""), self._wanted))
        self._canary = "".join(word for word, _ in words_of(canary or ""))

    def __bool__(self) -> bool:
        """Whether there is anything to be given away."""
        return bool(self._runs or self._canary)

    def found(self, text: str, path: str) -> Iterator[Finding]:
        """At most one finding of each kind. Never raises, whatever the text is."""
        if not self:
            return
        words = words_of(text)
        if self._runs and any(run in self._runs for run in _runs(words, self._wanted)):
            yield Finding(QUOTED, Label.SYSTEM_PROMPT_EXTRACTION, SCORE, LayerName.RULES, path)
        if self._canary and self._canary in "".join(word for word, _ in words):
            yield Finding(CANARY, Label.SYSTEM_PROMPT_EXTRACTION, SCORE, LayerName.RULES, path)


def _runs(words: Words, weight_limit: int) -> Iterator[int]:
    """A number for every shortest run of at least this weight. Numbers, because texts would fill the memory."""
    words = [word for word in words if not word[0].isdigit()]
    end = weight = 0
    for start, (_, light) in enumerate(words):
        while weight < weight_limit and end < len(words):
            weight += words[end][1]
            end += 1
        if weight < weight_limit:
            return
        yield hash(tuple(word for word, _ in words[start:end]))
        weight -= light


def words_of(text: str) -> Words:
    """Words without case, with their weight: two, or one for a character of a script without blanks."""
    weighted: list[tuple[str, int]] = []
    plain = text if text.isascii() else text.encode("utf-8", "replace").decode()
    for match in _WORD.finditer(plain):
        word = match.group().casefold()
        if word.isascii() or not _ONE_DENSE.search(word):
            weighted.append((word, 2))
        else:
            weighted += [(piece, 1 if _ONE_DENSE.fullmatch(piece) else 2) for piece in _PIECE.findall(word)]
    return weighted
