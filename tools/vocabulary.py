"""Writes sidecar/normalization/english.txt: the common English words of the training corpus, the commonest first.

python -m tools.vocabulary
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from sidecar.normalization.vocabulary import WORD_LIST

CORPUS = Path(__file__).parent.parent / "training" / "corpus"
MIN_ROWS = 8
"""Rows of the corpus that a word must occur in."""
_SHORT = "a i an as at am be by do go he if in is it me my no of on or so to up us we oh ok hi"
_WORD = re.compile(r"(?<![\w'.@/-])[a-z]+(?:'[a-z]+)?(?![\w@/-])")


def words() -> list[str]:
    """The words by the number of rows, in English, that they occur in."""
    counts = Counter[str]()
    for path in sorted(CORPUS.glob("*.jsonl")):
        rows = map(json.loads, path.read_text("utf-8").splitlines())
        counts.update(word for row in rows if row.get("lang") == "en" for word in set(_WORD.findall(row["text"])))
    short = frozenset(_SHORT.split())
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [word for word, count in ordered if count >= MIN_ROWS and (len(word) > 2 or word in short)]


if __name__ == "__main__":
    WORD_LIST.write_text("\n".join(words()) + "\n", "utf-8")
