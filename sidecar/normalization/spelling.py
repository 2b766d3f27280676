"""Disguised spellings that stay readable: l3375p34k, s.p.a.c.e.d letters, br-ok<b>en</b> words, wordsinone."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from sidecar.normalization.budget import NormalizationBudget, count_trigger_words
from sidecar.normalization.normalized_text import (
    BLOCK,
    BLOCK_OVERLAP,
    NormalizedText,
    Replacement,
    assemble,
    expand_blocks,
    translate,
)

LEET = "leet"
SPACED = "spaced"
DEHYPHENATED = "mended"
SEGMENTED = "run-on"
HINTS = {
    LEET: r"(?is)(?:[a-z][013457@$!|][a-z].*){3}|\b[a-z]{1,2}[013457@$][a-z]{1,3}[013457@$]"
    r"|\b[013457@$][a-z]+[013457@$]",
    SPACED: r"(?:\pL[\s._*|~·/\\\-]){3,}\pL|(?:\b\pL{1,3}[._*|~·\-]\pL){2}",
    DEHYPHENATED: r"(?i)[a-z](?:\*{1,3}|</?[a-z]{1,10}>|<!--)[a-z<]"
    r"|\b(?:ig-nor|igno-r|pre-vi|previ-o|instruc-t|in-stru|instruct-i|sys-t|dis-re|disre-g|for-ge|re-veal|over-ri|by-pass)",
    SEGMENTED: r"(?i)(?:ignor|disregard|forget|overrid|bypass|reveal|print|show|repeat|output)[a-z]{2,40}"
    r"(?:instructions|rules|prompt|guidelines)",
}
_LEET_HINT = re2.compile(HINTS[LEET])
MAX_SHORT_BLOCKS = 3
"""Blocks of a text that is read as leetspeak as a whole."""
_LEET = str.maketrans("0134578@$!|96+€", "oieastbasiiggte")
_LEET_L = str.maketrans("0134578@$!|96+€", "oleastbasllggte")
_SPACED_LETTERS = re2.compile(
    r"(?:(?:^|\b)\pL(?:[._*|~·/\\\-]{1,2}\pL)+(?:$|\b))|(?:\pL[ \t]){2,}\pL(?:$|\b)|(?:\pL[\r\n]+){2,}\pL(?:$|\b)"
)
_BROKEN_WORD = re2.compile(r"\pL+(?:(?:-|\*{1,3}|</?[a-zA-Z]{1,10}>|<!--[^<>]{0,40}-->)+\pL+)+")
_TAG = re2.compile(r"<[^<>]*>")
_BLOCK_TAGS = re2.compile(
    r"(?i)</?(?:p|br|hr|li|ul|ol|dl|dt|dd|div|td|th|tr|table|tbody|thead|h[1-6]|option|section|pre|a)>"
)
"""Tags that separate words."""
_HYPHENS_AND_STARS = str.maketrans("", "", "-*")
_LONG_WORD = re2.compile(r"[A-Za-z]{14,}")
_SEPARATORS = str.maketrans("", "", " \t\r\n._*|~·/\\-")
_WORDS = (
    "ignore ignoring disregard forget override bypass all any previous prior above earlier preceding instructions "
    "instruction rules guidelines prompts directions reveal show print output repeat display tell give write "
    "system prompt prompts your you are now the and this that follow instead secret password hidden developer mode "
    "without restrictions me my of to do is new from with everything said before"
)
_VOCABULARY = re2.compile("(?i)" + "|".join(sorted(_WORDS.split(), key=len, reverse=True)))


def respellings(view: NormalizedText, name: str, budget: NormalizationBudget | None = None) -> Iterator[NormalizedText]:
    """The views in which words have their usual spelling, within the budget."""
    budget = budget or NormalizationBudget(len(view.text))
    if name == LEET:
        return _leet_views(view, budget)
    find = {SPACED: _join_spaced, DEHYPHENATED: _dehyphenate, SEGMENTED: _segment}[name]
    replacements = budget.select(view, name, find(view.text), decoded=False)
    view_or_none = assemble(view, name, replacements, hidden=False)
    return iter([view_or_none] if view_or_none else [])


def _leet_views(view: NormalizedText, budget: NormalizationBudget) -> Iterator[NormalizedText]:
    """Two views for `1`, as i and as l; the second only where the text contains a one."""
    blocks = [view.text[at : at + BLOCK + BLOCK_OVERLAP] for at in range(0, len(view.text), BLOCK)]
    table_counts = [_worthwhile_tables(block, len(blocks) <= MAX_SHORT_BLOCKS, budget) for block in blocks]
    for number, table in enumerate((_LEET, _LEET_L)):
        places = expand_blocks(view.text, [number < count for count in table_counts])
        if places and (respelled := translate(view, LEET, table, hidden=False, places=places)):
            yield respelled


def _worthwhile_tables(block: str, unconditional: bool, budget: NormalizationBudget) -> int:
    """How many of the two views are worth their cost: if one adds trigger words, or the budget allows it anyway."""
    tables = 1 + ("1" in block)
    if unconditional:
        return tables
    if not _LEET_HINT.search(block) or not budget.is_new(LEET, block):
        return 0
    trigger_words = count_trigger_words(block)
    promising = any(count_trigger_words(block.translate(table)) > trigger_words for table in (_LEET, _LEET_L)[:tables])
    worthwhile = tables if promising else 1
    return worthwhile if budget.take(3 * worthwhile * BLOCK, promising=promising) else 0


def _join_spaced(text: str) -> Iterator[Replacement]:
    for match in _SPACED_LETTERS.finditer(text):
        start, end = match.span()
        word = text[start:end].translate(_SEPARATORS)
        yield Replacement(start, end, _split_words(word) if len(word) > 9 else word)


def _dehyphenate(text: str) -> Iterator[Replacement]:
    """Words without the hyphens, stars and tags inside them."""
    for match in _BROKEN_WORD.finditer(text):
        start, end = match.span()
        word = text[start:end]
        if "<" in word and _BLOCK_TAGS.search(word):
            continue
        yield Replacement(start, end, (_TAG.sub("", word) if "<" in word else word).translate(_HYPHENS_AND_STARS))


def _segment(text: str) -> Iterator[Replacement]:
    """Words written without spaces."""
    for match in _LONG_WORD.finditer(text):
        start, end = match.span()
        yield Replacement(start, end, _split_words(text[start:end]))


def _split_words(letters: str) -> str:
    """`ignoreallprevious` as words again, as far as the vocabulary reaches."""
    return " ".join(_VOCABULARY.sub(r" \g<0> ", letters).split())
