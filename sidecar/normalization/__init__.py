"""Normalization and decoding of a text: what a reader sees and a model would decode, mapped back to the original.

`normalizations(text)` begins with the text itself. Plain ASCII costs one pass of hint patterns; each hint that matches
triggers its decoding, and the results are examined once more, so that nesting is undone to depth 3. The results
together are at most `BUDGET_FACTOR` times as long as the text (`MIN_BUDGET` is always granted), the most promising
first (`sidecar.normalization.budget`). If a promising one exceeded the budget, the last result says so by its name.
Rules, findings and the API call a result a *view*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from string import ascii_letters

import re2

from sidecar.normalization import ciphers, codecs, folding, hangul, letters, separators, spelling, transports
from sidecar.normalization.budget import BUDGET_FACTOR, MIN_BUDGET, NormalizationBudget
from sidecar.normalization.fields import SPREAD, spread
from sidecar.normalization.misspellings import MISSPELLED, respelled
from sidecar.normalization.normalized_text import NormalizedText, Replacement, assemble
from sidecar.normalization.transliteration import TRANSLITERATED, transliterated

__all__ = [
    "BUDGET_FACTOR",
    "CODEC_NAMES",
    "DEPTH",
    "MIN_BUDGET",
    "OVERFLOW",
    "STEPS",
    "NormalizedText",
    "Replacement",
    "clear_cache",
    "encodable",
    "is_plain",
    "normalizations",
    "readings",
]

DEPTH = 3
MAX_AUTOMATON_BYTES = 64 << 20
"""Memory in which RE2 may build the states of one pattern; beyond it searches slowly."""
_ASCII_LETTERS = ascii_letters.encode()
MIN_RESTYLED = 0.6
"""The share of plain letters that had another look before, from which a text is read in small plain letters, too."""
CACHED_TEXTS, MAX_CACHED_LENGTH = 32, 10_000
"""Texts, and their maximum length in code points, whose views are cached: layers normalize the same text in turn."""


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem, options.log_errors = MAX_AUTOMATON_BYTES, False
    return options


_CODECS = {
    codec.name: (codec, re2.compile(codec.pattern, _options()))
    for codec in (*separators.CODECS, *codecs.CODECS, *transports.CODECS, *hangul.CODECS, *letters.CODECS)
}
CODEC_NAMES = tuple(_CODECS)
_CIPHERS = dict(ciphers.hint_patterns())
STEPS = ("unhidden", "folded", *_CODECS, *spelling.HINTS, *_CIPHERS, MISSPELLED, TRANSLITERATED, SPREAD)
"""Every step that can occur in the path of a view; the last three in views for the model alone."""


def _set(patterns: Iterable[str]) -> re2.Set:
    options = _options()
    options.never_capture = True
    pattern_set = re2.Set.SearchSet(options)
    for pattern in patterns:
        pattern_set.Add(pattern)
    pattern_set.Compile()
    return pattern_set


_FOLDINGS = frozenset({"unhidden", "folded"})
_CODES = frozenset(codec.name for codec in (*codecs.CODECS, *transports.CODECS))
OVERFLOW = "overflow"
"""The only step of a last, empty view: there was more to decode than the budget allowed."""
_HINTS = {**{name: codec.hint for name, (codec, _) in _CODECS.items()}, **spelling.HINTS}
_HINT_GROUPS = (
    (
        "percent",
        "url",
        "quoted",
        "entities",
        "escapes",
        "calls",
        "braille",
        "tags",
        "selectors",
        "bits",
        "utf7",
        "erased",
        "jamo",
        "turned",
    ),
    ("base64", "base32", "base85", "hex"),
    ("chunks", "cut"),
    ("binary", "decimal", "morse", "numbers", "keypad", "uuencode"),
    (spelling.LEET,),
    (spelling.SPACED, "separated", "broken", "columns"),
    (spelling.DEHYPHENATED, spelling.SEGMENTED, "radio", "acrostic", "rails"),
)
"""Hints that share an automaton. A single one would need far more states, which are built on demand: five times as long
for a new text."""
_HINT_SETS = [(names, _set(_HINTS[name] for name in names)) for names in _HINT_GROUPS] + [
    (tuple(_CIPHERS), _set(_CIPHERS.values()))
]


def normalizations(text: str) -> Sequence[NormalizedText]:
    """The text itself and every other view of it, shallow ones first. Never raises."""
    return _cached(text) if len(text) <= MAX_CACHED_LENGTH else _normalize(text)


@lru_cache(CACHED_TEXTS)
def _cached(text: str) -> Sequence[NormalizedText]:
    return _normalize(text)


def clear_cache() -> None:
    """Drop all cached texts, for measurements that repeat a text."""
    _cached.cache_clear()
    _cached_hints.cache_clear()


def _normalize(text: str) -> Sequence[NormalizedText]:
    raw = NormalizedText(encodable(text))
    views = [raw, *folding.foldings(raw)]
    if len(views) == 1 and not _hints_of(raw.text):
        return (raw,)
    budget = NormalizationBudget(len(raw.text))
    texts = {view.text for view in views}
    level = list(views)
    for _ in range(DEPTH):
        new_views: list[NormalizedText] = []
        for view in (deeper for base in level for deeper in _next_level(base, budget)):
            if budget.exceeded:
                return (*views, *new_views, NormalizedText("", (OVERFLOW,), parent=raw))
            if view.text in texts:
                continue
            texts.add(view.text)
            new_views.append(view)
        views += new_views
        level = new_views
    return (*views, NormalizedText("", (OVERFLOW,), parent=raw)) if budget.exceeded else tuple(views)


def readings(views: Sequence[NormalizedText]) -> Iterator[NormalizedText]:
    """Views that need the vocabulary: too dear for the rules, cheap beside a model.

    `views`: the text's `normalizations`.
    """
    raw = views[0]
    yield from (view for view in (_restyled(views), respelled(raw), transliterated(raw), spread(raw)) if view)


def _restyled(views: Sequence[NormalizedText]) -> NormalizedText | None:
    """English in letters of another look, or under marks, as plain small letters; None for other texts."""
    raw, view = views[0], next(view for view in reversed(views) if _FOLDINGS.issuperset(view.path))
    if raw.text.isascii():
        return None
    before, after = _ascii_letters(raw.text), _ascii_letters(view.text)
    changed = max(after - before, len(raw.text) - len(view.text))
    if changed < MIN_RESTYLED * after or letters.english_text(view.text.lower().split()) is None:
        return None
    lower = view.text.lower()
    return replace(view, hidden=True, text=lower if len(lower) == len(view.text) else view.text)


def _ascii_letters(text: str) -> int:
    data = text.encode("ascii", "ignore")
    return len(data) - len(data.translate(None, _ASCII_LETTERS))


def encodable(text: str) -> str:
    """Lone surrogates, which cannot be encoded, as question marks; everything else unchanged."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def is_plain(text: str) -> bool:
    """Whether nothing in the text suggests another view: it is its only view."""
    return not _hints_of(text) and next(folding.foldings(NormalizedText(text)), None) is None


def _hints_of(text: str) -> Sequence[str]:
    return _cached_hints(text) if len(text) <= MAX_CACHED_LENGTH else _search_hints(text)


def _search_hints(text: str) -> Sequence[str]:
    """The steps worth taking on this text: those with short views first, whole-text ones last."""
    data, found = text.encode(), list[str]()
    for names, hints in _HINT_SETS:
        found += map(names.__getitem__, sorted(hints.Match(data) or ()))
    return tuple(found)


_cached_hints = lru_cache(CACHED_TEXTS)(_search_hints)


def _next_level(base: NormalizedText, budget: NormalizationBudget) -> Iterator[NormalizedText]:
    """One level deeper: everything that the hints of this view suggest, within the budget.

    Leetspeak replaces digits and signs: no encoding is left in its view, which the text itself does not contain.
    """
    leet = spelling.LEET in base.path
    for name in _hints_of(base.text):
        if leet and name in _CODES:
            continue
        for view in _step(base, name, budget):
            yield view
            yield from folding.foldings(view)


def _step(base: NormalizedText, name: str, budget: NormalizationBudget) -> Iterator[NormalizedText]:
    if name in _CODECS:
        codec, pattern = _CODECS[name]
        replacements = budget.select(
            base, name, codecs.replacements(codec, pattern, base.text, budget.decoded), decoded=True
        )
        view = assemble(base, name, replacements, hidden=True)
        if view:
            yield view
    elif name in _CIPHERS:
        places = ciphers.places(base, name)
        if budget.take(sum(end - start for start, end in places), promising=True):
            view = ciphers.decipher(base, name, places)
            if view:
                yield view
    else:
        yield from spelling.respellings(base, name, budget)
