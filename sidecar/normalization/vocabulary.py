"""The common English words, and indexes that find a word by what is left of it.

`english.txt` holds the words of the training corpus, the commonest first (`tools/vocabulary.py` writes it). The indexes
are built at the first use: only text whose words are mostly unknown needs them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

WORD_LIST = Path(__file__).with_name("english.txt")
MIN_FUZZY, MIN_SKELETON, MAX_CANDIDATES = 4, 2, 4
"""Letters from which a word is found with one letter wrong or with inner letters in another order, and by its
consonants; words kept for one key."""
Index = Mapping[str, Sequence[str]]
MAX_SEGMENTED, MAX_WORD = 400, 16
"""Letters of a run without spaces that is split, and of one word in it."""
_FUNCTION_WORDS = (
    "the a an of to and or in on for from with without by as at is are was be been this that these those it its you "
    "your yours me my we our i do does not no all any every what who how when then than if but so now only just will "
    "can must should here there instead before after above below into out about"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_PRIORITY_WORDS = (
    "ignore disregard forget override previous prior instructions instruction rules system prompt print reveal show "
    "output repeat secret password hidden everything pretend tell write from without restrictions guidelines above said"
)
"""Words that win over commoner ones if both are possible: what attacks need."""
_SOUNDS = (("ph", "f"), ("ck", "k"), ("x", "ks"), ("qu", "kw"), ("th", "t"))
_ENDINGS = (("tion", "shn"), ("sion", "shn"), ("cious", "shs"), ("tious", "shs"))
_SOUND_TABLE = str.maketrans("cqzvy", "kksfi", "'")
_FOLDED_SOUNDS = str.maketrans("lfj", "rbz")
_VOWELS = str.maketrans("", "", "aeiouyh*#_-.")


def skeleton(word: str) -> str:
    """A sign for a first vowel, and the consonants as they sound."""
    for spelling, sound in _SOUNDS:
        word = word.replace(spelling, sound)
    consonants = word.translate(_SOUND_TABLE).translate(_VOWELS)
    collapsed = "".join(letter for at, letter in enumerate(consonants) if at == 0 or consonants[at - 1] != letter)
    return ("a" if word[:1] in "aeiouy" else "") + collapsed


def _skeletons(word: str) -> Iterator[str]:
    """The skeletons of a word by its letters and by the sound of its ending."""
    yield skeleton(word)
    for spelling, sound in _ENDINGS:
        if spelling in word:
            yield skeleton(word.replace(spelling, sound))


def anagram(word: str) -> str:
    """The same for all words with these outer letters and these inner ones in any order."""
    return word[:1] + "".join(sorted(word[1:-1])) + word[-1:]


def _shortened(word: str) -> Iterator[str]:
    """The word, and the word without one of its letters."""
    yield word
    yield from (word[:at] + word[at + 1 :] for at in range(len(word)))


class Vocabulary:
    """The words by rank, 0 the commonest."""

    def __init__(self, words: list[str]) -> None:
        self.ranks = {word: rank for rank, word in enumerate(words)}
        self._priorities = self.ranks | {word: at for at, word in enumerate(_PRIORITY_WORDS.split())}
        self._costs = {word: math.log((rank + 2) * math.log(len(words) + 2)) for word, rank in self.ranks.items()}

    def build(self) -> None:
        """Build all indexes now: about half a second, which no request should wait for."""
        _ = self._by_skeleton, self._by_sound, self._by_anagram, self._by_deletion, self._by_length

    def __contains__(self, word: str) -> bool:
        """Also compounds with a hyphen and possessives."""
        if word in self.ranks:
            return True
        if "-" in word:
            return all(len(part) > 1 and part in self.ranks for part in word.split("-"))
        return word.endswith(("'s", "’s")) and word[:-2] in self.ranks

    def by_skeleton(self, word: str) -> str | None:
        """The commonest word that sounds like it, without regard to vowels."""
        return next(iter(self._by_skeleton.get(skeleton(word), ())), None) if len(word) >= MIN_SKELETON else None

    def by_sound(self, word: str) -> str | None:
        """The same for scripts that do not tell l from r, or b from v."""
        return next(iter(self._by_sound.get(skeleton(word).translate(_FOLDED_SOUNDS), ())), None)

    def by_anagram(self, word: str) -> str | None:
        """The commonest word of these letters."""
        return next(iter(self._by_anagram.get(anagram(word), ())), None) if len(word) > MIN_SKELETON else None

    def by_pattern(self, pattern: str) -> str | None:
        """The commonest word of this length, with any letter for each dot."""
        words = self._by_length.get(f"{len(pattern)}{pattern[0]}", self._by_length.get(f"{len(pattern)}", ()))
        matches = re.compile(re.escape(pattern).replace(r"\.", ".")).fullmatch
        return next((word for word in words if matches(word)), None)

    def by_edit(self, word: str) -> str | None:
        """The most probable word with one letter more, other, or less, or with two letters swapped."""
        if len(word) < MIN_FUZZY:
            return None
        candidates = {word for short in _shortened(word) for word in self._by_deletion.get(short, ())}
        return min(candidates, key=lambda candidate: self._edit_cost(word, candidate), default=None)

    def is_priority(self, word: str | None) -> bool:
        """Whether it is a word that attacks need."""
        return word is not None and self._priorities.get(word, 0) < self.ranks.get(word, 0)

    def _edit_cost(self, word: str, candidate: str) -> float:
        """Letters are left out more often than replaced or added."""
        penalty = 1 if len(candidate) > len(word) or sorted(candidate) == sorted(word) else 8
        return (self._priorities[candidate] + 30) * penalty

    def segmented(self, letters: str) -> list[str] | None:
        """The most probable words of a run without spaces; None if it is not made of words."""
        if len(letters) > MAX_SEGMENTED:
            return None
        best: list[tuple[float, int]] = [(0.0, 0)]
        for end in range(1, len(letters) + 1):
            starts = range(max(0, end - MAX_WORD), end)
            best.append(min((best[at][0] + self._costs.get(letters[at:end], 30.0 * (end - at)), at) for at in starts))
        words, end = list[str](), len(letters)
        while end:
            words.append(letters[best[end][1] : end])
            end = best[end][1]
        return words[::-1] if best[-1][0] < 3.2 * len(letters) else None

    @cached_property
    def _by_skeleton(self) -> Index:
        return self._index(_skeletons)

    @cached_property
    def _by_sound(self) -> Index:
        return self._index(lambda word: (key.translate(_FOLDED_SOUNDS) for key in _skeletons(word)))

    @cached_property
    def _by_anagram(self) -> Index:
        return self._index(lambda word: iter([anagram(word)]))

    @cached_property
    def _by_deletion(self) -> Index:
        return self._index(lambda word: _shortened(word) if len(word) >= MIN_FUZZY else iter(()))

    @cached_property
    def _by_length(self) -> Index:
        return self._index(lambda word: iter([str(len(word)), f"{len(word)}{word[0]}"]), limit=len(self.ranks))

    def _index(self, keys: Callable[[str], Iterator[str]], limit: int = MAX_CANDIDATES) -> Index:
        """For each key its most probable words."""
        index: dict[str, list[str]] = {}
        for word in sorted(self.ranks, key=self._priorities.__getitem__):
            for key in keys(word):
                words = index.setdefault(key, [])
                if len(words) < limit and word not in words:
                    words.append(word)
        return index


@cache
def english() -> Vocabulary:
    """The shipped vocabulary."""
    return Vocabulary(WORD_LIST.read_text("utf-8").split())
