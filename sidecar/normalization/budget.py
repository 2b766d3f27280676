"""Length budget for the views of a text, and their priority.

Ordinary documents suggest decodings by the hundred: identifiers look like leetspeak, tables like morse, tags stand
between words. A decoding is promising if it contains more trigger words than before (`count_trigger_words`), or if an
encoding was undone and the result is text. Those share `BUDGET_FACTOR` times the length of the text; all others have
`UNPROMISING_SHARE` of it, and are dropped silently beyond that. Only a promising decoding over budget is reported
(`exceeded`).

Invariant: decoding never takes more code points than the budget, whatever the text (foldings are not counted).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import re2

from sidecar.normalization.normalized_text import CONTEXT, NormalizedText, Replacement

BUDGET_FACTOR = 6
MIN_BUDGET = 64_000
"""Code points that the views of a short text may have together."""
UNPROMISING_SHARE, MIN_UNPROMISING = 0.1, 6_000
"""The share of the text for unpromising decodings, and their minimum for any text."""
MAX_CLUSTER = 1_500
"""Code points after which adjacent replacements form a new cluster."""
_STEMS = (
    "ignor disregard forget overrid bypass previous preced prior earlier above instruc system prompt reveal output "
    "repeat respond respons answer please includ follow display secret password credential jailbreak restrict "
    "guideline pretend unfilter uncensor developer execut delete upload forward transfer without your assistant "
    "ignorier vergiss vergess vorherig anweisung geheim passwort ignorez oubli précédent precedent consigne olvid "
    "anterior sistema instrucc instruç ignora dimentic precedent istruzion esque negeer vergeet instruct zignoruj "
    "zapomnij poprzedni instrukc önceki yoksay unut talimat игнор забуд инструкц систем предыдущ "
    "指示 忽略 无视 無視 之前 系统 提示 이전 무시 지시 시스템 تجاهل التعليمات अनदेखा निर्देश"
)
_TRIGGER_WORDS = re2.compile("(?i)" + "|".join(sorted(set(_STEMS.split()), key=len, reverse=True)))
_WORDS = re2.compile(r"\pL{2,}[ ,.]\s?\pL{2,}|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]{4}")
_Attempt = tuple[str, str]


def count_trigger_words(text: str) -> int:
    """How many words it contains that an attack can hardly avoid."""
    return sum(1 for _ in _TRIGGER_WORDS.finditer(text))


def is_language(text: str) -> bool:
    """Whether it has consecutive words, unlike the noise of accidental decoding."""
    return _WORDS.search(text) is not None


class NormalizationBudget:
    """The remaining budget for the views of one text."""

    def __init__(self, length: int) -> None:
        self.exceeded = False
        """Whether a promising decoding was over budget."""
        self._promising = max(MIN_BUDGET, BUDGET_FACTOR * length)
        self._unpromising = max(MIN_UNPROMISING, int(UNPROMISING_SHARE * length))
        self.decoded: dict[_Attempt, str | None] = {}
        """Decoded texts, shared between views."""
        self._attempted: set[_Attempt] = set()

    def take(self, length: int, *, promising: bool) -> bool:
        """Take this many code points from the budget, if it has them."""
        if not promising:
            if length > self._unpromising:
                return False
            self._unpromising -= length
        if length > self._promising:
            self.exceeded = self.exceeded or promising
            return False
        self._promising -= length
        return True

    def is_new(self, step: str, source: str) -> bool:
        """Whether this step is new for this text, which several views may share."""
        attempt = (step, source)
        if attempt in self._attempted:
            return False
        self._attempted.add(attempt)
        return True

    def select(
        self, parent: NormalizedText, step: str, replacements: Iterable[Replacement], *, decoded: bool
    ) -> Iterator[Replacement]:
        """The replacements within the budget; adjacent ones are taken or dropped together."""
        for cluster in _clusters(replacements):
            start, end = max(0, cluster[0].start - CONTEXT), cluster[-1].end + CONTEXT
            if not self.is_new(step, parent.text[start:end]):
                continue
            text = " ".join(replacement.text for replacement in cluster)
            promising = (
                is_language(text)
                if decoded
                else count_trigger_words(text) > count_trigger_words(parent.text[cluster[0].start : cluster[-1].end])
            )
            if self.take(len(text) + 2 * CONTEXT, promising=promising):
                yield from cluster


def _clusters(replacements: Iterable[Replacement]) -> Iterator[Sequence[Replacement]]:
    """Replacements with nothing left out between them."""
    cluster: list[Replacement] = []
    for replacement in replacements:
        if cluster and (
            replacement.start - cluster[-1].end > 2 * CONTEXT or replacement.start - cluster[0].start > MAX_CLUSTER
        ):
            yield cluster
            cluster = []
        cluster.append(replacement)
    if cluster:
        yield cluster
