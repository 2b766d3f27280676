"""How much room the readings of a text have, and which of them have it first.

Ordinary documents hint at readings by the hundred: identifiers look like leet, tables like morse, tags stand between
words. A reading is promising if it says something that an attack can hardly do without (`count_trigger_words`), or if an encoding
was undone and what came out is text. Those have `BUDGET_FACTOR` times the length of the text; all others have `UNPROMISING_SHARE` of it,
and are left out beyond that without a word. Only a promising reading that found no room is reported (`exceeded`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import re2

from sidecar.normalization.normalized_text import CONTEXT, NormalizedText, Replacement

BUDGET_FACTOR = 6
MIN_BUDGET = 64_000
"""Code points that the views of a short text may have together."""
UNPROMISING_SHARE, MIN_UNPROMISING = 0.1, 6_000
"""The share of the text that readings which promise nothing may have, and what they may have of any text."""
MAX_CLUSTER = 1_500
"""Code points after which runs that follow each other closely are taken for another reading."""
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
    """How many words in it an attack can hardly do without."""
    return sum(1 for _ in _TRIGGER_WORDS.finditer(text))


def is_language(text: str) -> bool:
    """Whether it has words, one after the other, rather than the noise that decoding by chance makes."""
    return _WORDS.search(text) is not None


class NormalizationBudget:
    """What is left for the readings of one text."""

    def __init__(self, length: int) -> None:
        self.exceeded = False
        """Whether a promising reading found no room."""
        self._promising = max(MIN_BUDGET, BUDGET_FACTOR * length)
        self._unpromising = max(MIN_UNPROMISING, int(UNPROMISING_SHARE * length))
        self.decoded: dict[_Attempt, str | None] = {}
        """What codecs said of stretches that other views have, too."""
        self._attempted: set[_Attempt] = set()

    def take(self, length: int, *, promising: bool) -> bool:
        """Whether there is room for so many code points more; then they are taken."""
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
        """Whether this step has not been taken on these words before: from another view that shares them."""
        attempt = (step, source)
        if attempt in self._attempted:
            return False
        self._attempted.add(attempt)
        return True

    def select(
        self, parent: NormalizedText, step: str, replacements: Iterable[Replacement], *, decoded: bool
    ) -> Iterator[Replacement]:
        """The runs for which there is room; those that follow each other closely stand or fall together."""
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
    """Runs between which nothing is left out."""
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
