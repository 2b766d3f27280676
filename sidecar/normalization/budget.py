"""How much room the readings of a text have, and which of them have it first.

Ordinary documents hint at readings by the hundred: identifiers look like leet, tables like morse, tags stand between
words. A reading is promising if it says something that an attack can hardly do without (`tells`), or if an encoding
was undone and what came out is text. Those have `ROOM` times the length of the text; all others have `OTHERS` of it,
and are left out beyond that without a word. Only a promising reading that found no room is reported (`left`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import re2

from sidecar.normalization.view import CONTEXT, Run, View

ROOM = 6
ROOM_LEAST = 64_000
"""Code points that the views of a short text may have together."""
OTHERS, OTHERS_LEAST = 0.1, 6_000
"""The share of the text that readings which promise nothing may have, and what they may have of any text."""
CLUSTER = 1_500
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
_TELLS = re2.compile("(?i)" + "|".join(sorted(set(_STEMS.split()), key=len, reverse=True)))
_WORDS = re2.compile(r"\pL{2,}[ ,.]\s?\pL{2,}|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]{4}")
_Reading = tuple[str, str]


def tells(text: str) -> int:
    """How many words in it an attack can hardly do without."""
    return sum(1 for _ in _TELLS.finditer(text))


def is_speech(text: str) -> bool:
    """Whether it has words, one after the other, rather than the noise that decoding by chance makes."""
    return _WORDS.search(text) is not None


class Room:
    """What is left for the readings of one text."""

    def __init__(self, length: int) -> None:
        self.left = False
        """Whether a promising reading found no room."""
        self._promising = max(ROOM_LEAST, ROOM * length)
        self._others = max(OTHERS_LEAST, int(OTHERS * length))
        self.decoded: dict[_Reading, str | None] = {}
        """What codecs said of stretches that other views have, too."""
        self._seen: set[_Reading] = set()

    def takes(self, length: int, *, promising: bool) -> bool:
        """Whether there is room for so many code points more; then they are taken."""
        if not promising:
            if length > self._others:
                return False
            self._others -= length
        if length > self._promising:
            self.left = self.left or promising
            return False
        self._promising -= length
        return True

    def is_new(self, step: str, source: str) -> bool:
        """Whether this step has not been taken on these words before: from another view that shares them."""
        reading = (step, source)
        if reading in self._seen:
            return False
        self._seen.add(reading)
        return True

    def chosen(self, parent: View, step: str, runs: Iterable[Run], *, decoded: bool) -> Iterator[Run]:
        """The runs for which there is room; those that follow each other closely stand or fall together."""
        for cluster in _clusters(runs):
            start, end = max(0, cluster[0].start - CONTEXT), cluster[-1].end + CONTEXT
            if not self.is_new(step, parent.text[start:end]):
                continue
            text = " ".join(run.text for run in cluster)
            shown = is_speech(text) if decoded else tells(text) > tells(parent.text[cluster[0].start : cluster[-1].end])
            if self.takes(len(text) + 2 * CONTEXT, promising=shown):
                yield from cluster


def _clusters(runs: Iterable[Run]) -> Iterator[Sequence[Run]]:
    """Runs between which nothing is left out."""
    cluster: list[Run] = []
    for run in runs:
        if cluster and (run.start - cluster[-1].end > 2 * CONTEXT or run.start - cluster[0].start > CLUSTER):
            yield cluster
            cluster = []
        cluster.append(run)
    if cluster:
        yield cluster
