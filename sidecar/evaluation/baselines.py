"""Trivial baselines of a data set: how well length alone, and words alone, separate its attacks from its benign rows.

A detector must do better than these. Words: naive Bayes over the words that occur in a text, each counted once
(multinomial with binary features, add-one smoothing: Metsis, Androutsopoulos and Paliouras, "Spam Filtering with Naive
Bayes: Which Naive Bayes?", CEAS 2006), by five-fold cross-validation. Related rows (both sides of a pair, all rows of a
source) are in one fold, so that no row is scored by a model that saw its twin.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

from sidecar.evaluation.rows import Row
from sidecar.evaluation.shares import auc

FOLDS = 5
MOST_CHARACTERS = 20_000
"""Characters of each text that are used; the rest is cut off, so that the words do not measure length."""
_WORD = re.compile(r"[^\W\d_]+")
_Words = frozenset[str]


def figures(rows: Sequence[Row]) -> dict[str, float | None]:
    """AUC of length (longer is more suspicious; below 0.5: shorter) and of words; None without both kinds."""
    labelled = [row for row in rows if row.attack or row.benign]
    if len({row.attack for row in labelled}) < 2:
        return {"length": None, "words": None}
    return {"length": auc((float(row.bytes), row.attack) for row in labelled), "words": _words_auc(labelled)}


def _words_auc(rows: Sequence[Row]) -> float | None:
    folds = _folds(rows)
    words = [frozenset(_WORD.findall(row.content[:MOST_CHARACTERS].casefold())) for row in rows]
    attacks = [row.attack for row in rows]
    scored = []
    for fold in set(folds):
        training = [at for at, group in enumerate(folds) if group != fold]
        model = _Model([words[at] for at in training], [attacks[at] for at in training])
        scored += [(model.score(words[at]), attacks[at]) for at, group in enumerate(folds) if group == fold]
    return auc(scored)


def _folds(rows: Sequence[Row]) -> list[int]:
    """Fold numbers by pair, else by source; by row where there are too few sources."""
    pairs = {row.pair for row in rows if row.pair}
    groups = [row.pair or (row.id if row.id in pairs else row.source) or row.id for row in rows]
    if len(set(groups)) < 2 * FOLDS:
        groups = [row.pair or row.id for row in rows]
    return [zlib.crc32(group.encode("utf-8", "surrogatepass")) % FOLDS for group in groups]


class _Model:
    """Naive Bayes: the mean log ratio of a text's words, which does not depend on its length."""

    def __init__(self, texts: Sequence[_Words], attacks: Sequence[bool]) -> None:
        counts = {side: Counter[str]() for side in (False, True)}
        for words, attack in zip(texts, attacks, strict=True):
            counts[attack].update(words)
        vocabulary = len(counts[True] | counts[False])
        totals = {side: counts[side].total() + vocabulary for side in counts}
        self._ratios: Mapping[str, float] = {
            word: math.log((counts[True][word] + 1) * totals[False] / ((counts[False][word] + 1) * totals[True]))
            for word in counts[True] | counts[False]
        }

    def score(self, words: _Words) -> float:
        """Above 0: more like the attacks."""
        ratios = [self._ratios[word] for word in words if word in self._ratios]
        return sum(ratios) / len(ratios) if ratios else 0.0
