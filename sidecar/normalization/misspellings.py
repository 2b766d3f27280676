"""Undoes the misspelling of whole English sentences: dropped, doubled, swapped and reversed letters, leetspeak, speech.

A passage whose words are mostly unknown is read with the one change of all words (`CHANGES`) that makes most of them
known; the rest may have one letter wrong. It is a view only if nearly all its words are then known: names, identifiers
and other languages do not become English that way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice, product
from typing import NamedTuple

from sidecar.normalization.normalized_text import NormalizedText, Replacement, assemble
from sidecar.normalization.vocabulary import FUNCTION_WORDS, Vocabulary, english

MISSPELLED = "misspelled"
RADIUS, MIN_UNKNOWN_PERCENT = 4, 36
"""Words on each side of a word, and the percentage of letters in unknown ones among them that makes a passage."""
MIN_LETTERS, SAMPLE, FIRST_SAMPLE, MIN_FIRST_SHARE = 12, 14, 4, 0.3
"""Letters of a passage; its words that a change is tried on, the first of these, and the share that it must explain."""
MIN_SAMPLE_SHARE, MIN_KNOWN_SHARE, MIN_CHANGED, MIN_FUNCTION_SHARE = 0.5, 0.66, 3, 0.14
"""Letters that one change makes known in the unknown words of the sample; of the passage in the end letters in known
words, the words that were changed (at least a fifth), and function words among its words."""
MIN_DISTINCT = 2
"""Different words that were changed: one name that is repeated is no misspelling."""
VAGUE_MARGIN, MIN_EXACT_SHARE = 0.1, 0.08
MIN_WORDLIKE, MIN_RARE_RANK = 0.7, 1_000
"""Letters of a passage in words without the punctuation of code; the rank from which a word is rare."""
MAX_PASSAGES, MAX_TOKEN = 60, 400
MIN_PARTS, MIN_RUN_ON, MIN_ALPHABETIC = 9, 18, 0.8
"""Characters of a word that is split into a few, and of one that is split into many, and the share of letters in it."""
SURROUNDINGS = 12
"""Words on each side of three unknown ones close together, or of one long one, that may be in a passage with them."""
_CLUSTER = re.compile("1.{0,3}1.{0,3}1|2")
_TOKEN = re.compile(r"\S+")
_EDGE = ".,;:!?\"'()[]{}<>`…“”"
_WORDLIKE = re.compile(r"[^\W_]+(?:['’*@$!+|\\/€_#.,;:?-]+[^\W_]+)*[*]*|[a-z0-9|\\/$!(+_'’-]+")
_SIGNS = (("|\\|", "n"), ("|-|", "h"), ("|_|", "u"), ("\\/", "v"), ("/-\\", "a"), ("|<", "k"), ("()", "o"))
_LEET = [str.maketrans("013456789@$!(+€|", f"o{one}eas{six}tbgas{one}cte{one}") for one in "il" for six in "bg"]
_RUN = re.compile(r"[^\W\d_]+|[\W\d]+")
_PUNCTUATION, _WILDCARD = re.compile(r" ([.,;:!?'’)])"), re.compile(r"[*_#•]")
_STUTTER = re.compile(r"^(\w{1,2})[-~]+(?=\1)")
_LISP = re.compile("(th|w)")
_LISPED = {"th": ("s", "th"), "w": ("r", "l", "w")}
MAX_LISPED = 5
_SYLLABLES = ("ub", "op", "ag", "ib", "ab", "eg")
Change = Callable[[str, Vocabulary], str | None]


class Token(NamedTuple):
    """A word without the punctuation around it, and with it."""

    start: int
    end: int
    text: str
    raw: str


def _known(word: str, vocabulary: Vocabulary) -> str | None:
    return word if word in vocabulary else None


def _reversed(word: str, vocabulary: Vocabulary) -> str | None:
    return _known(word[::-1].strip(_EDGE), vocabulary)


def _leet(word: str, vocabulary: Vocabulary) -> str | None:
    if word.isalpha():
        return None
    for signs, letter in _SIGNS:
        word = word.replace(signs, letter)
    candidates = [word.translate(table) for table in _LEET]
    return next((candidate for candidate in candidates if candidate in vocabulary), None)


def _stutter(word: str, vocabulary: Vocabulary) -> str | None:
    return _known(_STUTTER.sub("", word), vocabulary)


def _pig_latin(word: str, vocabulary: Vocabulary) -> str | None:
    if not word.endswith("ay"):
        return None
    stem = word[:-2]
    turned = [stem.removesuffix("w"), *(stem[-at:] + stem[:-at] for at in range(1, 5))]
    return next((candidate for candidate in turned if candidate in vocabulary), None)


def _syllable(word: str, vocabulary: Vocabulary) -> str | None:
    return next((short for s in _SYLLABLES if s in word and (short := word.replace(s, "")) in vocabulary), None)


def _doubled(word: str, vocabulary: Vocabulary) -> str | None:
    once, single = re.sub(r"(.)\1", r"\1", word), re.sub(r"(.)\1+", r"\1", word)
    twice = re.sub(r"(.)\1{2,}", r"\1\1", word)
    return next((candidate for candidate in (once, single, twice) if candidate in vocabulary), None)


def _lisp(word: str, vocabulary: Vocabulary) -> str | None:
    parts = _LISP.split(word)[: 2 * MAX_LISPED + 1]
    options = [_LISPED.get(part, (part,)) for part in parts]
    candidates = [candidate for letters in product(*options) if (candidate := "".join(letters)) in vocabulary.ranks]
    return min(candidates, key=vocabulary.ranks.__getitem__, default=None)


def _skeleton(word: str, vocabulary: Vocabulary) -> str | None:
    return vocabulary.by_skeleton(word)


def _anagram(word: str, vocabulary: Vocabulary) -> str | None:
    return vocabulary.by_anagram(word)


def _edit(word: str, vocabulary: Vocabulary) -> str | None:
    return vocabulary.by_edit(word)


def _segment(word: str, vocabulary: Vocabulary) -> str | None:
    """Words without spaces between them; punctuation and digits stay."""
    if not _is_run_on(word):
        return None
    pieces = [vocabulary.segmented(run) if run.isalpha() else [run] for run in _RUN.findall(word)]
    text = " ".join(part for piece in pieces if piece for part in piece)
    return _PUNCTUATION.sub(r"\1", text) if all(pieces) else None


def _is_run_on(word: str) -> bool:
    """Whether it may be several words without spaces, unlike an address."""
    return len(word) >= MIN_RUN_ON and sum(map(str.isalpha, word)) >= MIN_ALPHABETIC * len(word)


def _parts(word: str, vocabulary: Vocabulary) -> str | None:
    """Two or three words in one."""
    words = vocabulary.segmented(word) if MIN_PARTS <= len(word) < MIN_RUN_ON and word.isalpha() else None
    return " ".join(words) if words and all(len(part) > 2 for part in words) else None


def _wildcards(word: str, vocabulary: Vocabulary) -> str | None:
    """A sign stands for one letter."""
    return vocabulary.by_pattern(_WILDCARD.sub(".", word)) if _WILDCARD.search(word) else None


CHANGES: Sequence[Change] = (
    _known, _reversed, _leet, _stutter, _pig_latin, _syllable, _doubled, _lisp, _wildcards, _edit, _anagram,
    _skeleton, _segment,
)  # fmt: skip
"""The changes that a passage is tried with: the first of the best."""
FALLBACKS: Sequence[Change] = (_edit, _anagram, _parts)
"""For words that the change of the passage leaves unknown."""
VAGUE: Sequence[Change] = (_anagram, _skeleton)
"""Changes that make a word of most letters, and are taken only if they explain more than others by `VAGUE_MARGIN`."""
CLOSE_WORDS: Sequence[Change] = (_edit, _skeleton)
"""Changes for words that were written by their sound."""
STRONG: Sequence[Change] = (_reversed, _leet, _stutter, _pig_latin, _syllable, _lisp)
"""Changes that also replace a rare word by a much commoner one (`dna`: and)."""


def respelled(view: NormalizedText, changes: Sequence[Change] = CHANGES) -> NormalizedText | None:
    """The view with its misspelled passages in English, if it has any."""
    vocabulary = english()
    passages = sorted(_passages(view.text, vocabulary), key=_letters, reverse=True)[:MAX_PASSAGES]
    replacements = [r for passage in passages if (r := _read(view.text, passage, vocabulary, changes))]
    return assemble(view, MISSPELLED, sorted(replacements), hidden=True)


def respelled_text(text: str, changes: Sequence[Change]) -> str | None:
    """A whole text in English; None if most of it stays unknown."""
    tokens = _tokens(text)
    replacement = _read(text, tokens, english(), changes) if tokens else None
    return replacement.text if replacement else None


def _tokens(text: str) -> list[Token]:
    return [_token(match) for match in _TOKEN.finditer(text) if match[0].strip(_EDGE)]


def _token(match: re.Match[str]) -> Token:
    raw = match[0]
    stripped = raw.strip(_EDGE)
    start = match.start() + raw.index(stripped)
    return Token(start, start + len(stripped), stripped.lower(), raw.rstrip(".,;:?'\"").lower())


def _letters(tokens: Sequence[Token]) -> int:
    return sum(len(token.text) for token in tokens)


def _passages(text: str, vocabulary: Vocabulary) -> Iterator[Sequence[Token]]:
    """Runs of words among which many are unknown, with the words beside them."""
    matches, position = _TOKEN.finditer(text), 0
    for first, last in _near_clusters(_flags(text, vocabulary)):
        words = islice(matches, max(0, first - position), last - position)
        tokens = [_token(match) for match in words if match[0].strip(_EDGE)]
        position = last
        yield from (tokens[start:end] for start, end in _passage_spans([token.text for token in tokens], vocabulary))


def _flags(text: str, vocabulary: Vocabulary) -> str:
    """A flag for each word, 0: known, 1: unknown, 2: perhaps several words; nothing if hardly any is unknown."""
    words = text.lower().split()
    stripped = {word: word.strip(_EDGE) for word in set(words).difference(vocabulary.ranks)}
    flags = {word: _flag(word, vocabulary) for word in set(stripped.values())}
    if len(flags) - [*flags.values()].count("0") < MIN_DISTINCT and "2" not in flags.values():
        return ""
    return "".join([flags[stripped[word]] if word in stripped else "0" for word in words])


def _flag(word: str, vocabulary: Vocabulary) -> str:
    if not word or word in vocabulary.ranks or word.isdigit():
        return "0"
    return "2" if _is_run_on(word) else "1"


def _near_clusters(flags: str) -> Iterator[tuple[int, int]]:
    """The places of clusters of unknown words with their surroundings: nothing in most ordinary texts."""
    first = last = 0
    for cluster in _CLUSTER.finditer(flags):
        if (start := max(0, cluster.start() - SURROUNDINGS)) > last:
            if last:
                yield first, last
            first = start
        last = cluster.end() + SURROUNDINGS
    if last:
        yield first, last


def _passage_spans(words: Sequence[str], vocabulary: Vocabulary) -> Iterator[tuple[int, int]]:
    """Where these runs are among the words."""
    ranks, percents = vocabulary.ranks, (-MIN_UNKNOWN_PERCENT, 100 - MIN_UNKNOWN_PERCENT)
    weights = [len(w) * percents[w not in ranks and _is_unknown(w, vocabulary)] for w in words]
    sums = [0, *accumulate(weights)]
    before, after = [0] * RADIUS + sums, sums[RADIUS + 1 :] + [sums[-1]] * RADIUS
    first = last = -1
    for at, (sum_before, sum_after) in enumerate(zip(before, after, strict=False)):
        if sum_after < sum_before:
            continue
        if (low := max(0, at - RADIUS)) > last:
            if last > 0:
                yield first, last
            first = low
        last = min(len(words), at + RADIUS + 1)
    if last > 0:
        yield first, last


def _is_unknown(word: str, vocabulary: Vocabulary) -> bool:
    return word not in vocabulary and not word.isdigit() and len(word) <= MAX_TOKEN


def _read(text: str, passage: Sequence[Token], vocabulary: Vocabulary, changes: Sequence[Change]) -> Replacement | None:
    """The passage in English; None if most of it stays unknown, or is code."""
    letters = _letters(passage)
    if letters < MIN_LETTERS or _letters([t for t in passage if _WORDLIKE.fullmatch(t.text)]) < MIN_WORDLIKE * letters:
        return None
    middle = max(0, (len(passage) - SAMPLE) // 2)
    sample = [t for t in passage[middle : middle + SAMPLE] if _is_unknown(t.text, vocabulary)]
    promising = [change for change in changes if _share(sample[:FIRST_SAMPLE], change, vocabulary) >= MIN_FIRST_SHARE]
    shares = {change: _share(sample, change, vocabulary) - (change in VAGUE) * VAGUE_MARGIN for change in promising}
    change = max(shares, key=shares.__getitem__, default=_known)
    if shares.get(change, 0) < MIN_SAMPLE_SHARE or (change in VAGUE and not _has_english_words(passage)):
        return None
    words = [(token, _changed(token, change, vocabulary)) for token in passage]
    return Replacement(passage[0].start, passage[-1].end, _joined(text, words)) if _is_english(words) else None


def _has_english_words(passage: Sequence[Token]) -> bool:
    """Whether some words are English as they stand: what explains most letters also explains other languages."""
    functional = sum(len(token.text) > 2 and token.text in FUNCTION_WORDS for token in passage)
    return functional >= MIN_EXACT_SHARE * len(passage)


def _is_english(words: Sequence[tuple[Token, str | None]]) -> bool:
    """Whether nearly all words are known now, several of them by the change, and some are function words."""
    known = sum(len(token.text) for token, word in words if word)
    changed = " ".join(word for token, word in words if word and word != token.text).split()
    read = " ".join(word for _, word in words if word).split()
    return (
        known >= MIN_KNOWN_SHARE * _letters([token for token, _ in words])
        and len(changed) >= max(MIN_CHANGED, 0.2 * len(read))
        and len(set(changed)) >= MIN_DISTINCT
        and sum(word in FUNCTION_WORDS for word in read) >= MIN_FUNCTION_SHARE * len(read)
    )


def _share(sample: Sequence[Token], change: Change, vocabulary: Vocabulary) -> float:
    """Letters in unknown words that become known."""
    known = sum(len(t.text) for t in sample if change(t.raw if change is _leet else t.text, vocabulary))
    return known / max(1, _letters(sample))


def _changed(token: Token, change: Change, vocabulary: Vocabulary) -> str | None:
    word = token.text
    if word in vocabulary:
        rank = vocabulary.ranks.get(word, 0)
        other = change(word, vocabulary) if change in STRONG and rank > MIN_RARE_RANK else None
        return other if other and 10 * vocabulary.ranks.get(other, 0) < rank else word
    if change in VAGUE and vocabulary.is_priority(near := vocabulary.by_edit(word)):
        return near
    if new := change(token.raw if change is _leet else word, vocabulary):
        return new
    return next((other for fallback in FALLBACKS if (other := fallback(word, vocabulary))), None)


def _joined(text: str, words: Sequence[tuple[Token, str | None]]) -> str:
    parts, last = list[str](), words[0][0].start
    for token, word in words:
        parts += [text[last : token.start], word or text[token.start : token.end]]
        last = token.end
    return "".join(parts)
