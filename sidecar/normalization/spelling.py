"""Words spelled so that a reader still reads them: l3375p34k, l.e.t.t.e.r.s apart, br-ok<b>en</b>, allrunninginone."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from sidecar.normalization.budget import Room, tells
from sidecar.normalization.view import BLOCK, OVER, Run, View, assemble, beside, translated

LEET = "leet"
SPACED = "spaced"
MENDED = "mended"
RUN_ON = "run-on"
HINTS = {
    LEET: r"(?is)(?:[a-z][013457@$!|][a-z].*){3}|\b[a-z]{1,2}[013457@$][a-z]{1,3}[013457@$]"
    r"|\b[013457@$][a-z]+[013457@$]",
    SPACED: r"(?:\pL[\s._*|~·/\\\-]){3,}\pL|(?:\b\pL{1,3}[._*|~·\-]\pL){2}",
    MENDED: r"(?i)[a-z](?:\*{1,3}|</?[a-z]{1,10}>|<!--)[a-z<]"
    r"|\b(?:ig-nor|igno-r|pre-vi|previ-o|instruc-t|in-stru|instruct-i|sys-t|dis-re|disre-g|for-ge|re-veal|over-ri|by-pass)",
    RUN_ON: r"(?i)(?:ignor|disregard|forget|overrid|bypass|reveal|print|show|repeat|output)[a-z]{2,40}"
    r"(?:instructions|rules|prompt|guidelines)",
}
_HINTS_AT_LEET = re2.compile(HINTS[LEET])
SHORT = 3
"""Blocks of a text that is read as leet as a whole."""
_LEET = str.maketrans("0134578@$!|96+€", "oieastbasiiggte")
_LEET_L = str.maketrans("0134578@$!|96+€", "oleastbasllggte")
_APART = re2.compile(
    r"(?:(?:^|\b)\pL(?:[._*|~·/\\\-]{1,2}\pL)+(?:$|\b))|(?:\pL[ \t]){2,}\pL(?:$|\b)|(?:\pL[\r\n]+){2,}\pL(?:$|\b)"
)
_BROKEN = re2.compile(r"\pL+(?:(?:-|\*{1,3}|</?[a-zA-Z]{1,10}>|<!--[^<>]{0,40}-->)+\pL+)+")
_TAG = re2.compile(r"<[^<>]*>")
_APART_BY_TAGS = re2.compile(
    r"(?i)</?(?:p|br|hr|li|ul|ol|dl|dt|dd|div|td|th|tr|table|tbody|thead|h[1-6]|option|section|pre|a)>"
)
"""Tags between which words stand apart."""
_SIGNS = str.maketrans("", "", "-*")
_LONG = re2.compile(r"[A-Za-z]{14,}")
_SEPARATORS = str.maketrans("", "", " \t\r\n._*|~·/\\-")
_WORDS = (
    "ignore ignoring disregard forget override bypass all any previous prior above earlier preceding instructions "
    "instruction rules guidelines prompts directions reveal show print output repeat display tell give write "
    "system prompt prompts your you are now the and this that follow instead secret password hidden developer mode "
    "without restrictions me my of to do is new from with everything said before"
)
_VOCABULARY = re2.compile("(?i)" + "|".join(sorted(_WORDS.split(), key=len, reverse=True)))


def respelled(view: View, name: str, room: Room | None = None) -> Iterator[View]:
    """The views in which words are written as usual, as far as there is room."""
    room = room or Room(len(view.text))
    if name == LEET:
        return _unleeted(view, room)
    again = {SPACED: _joined, MENDED: _mended, RUN_ON: _parted}[name]
    runs = room.chosen(view, name, again(view.text), decoded=False)
    view_or_none = assemble(view, name, runs, hidden=False)
    return iter([view_or_none] if view_or_none else [])


def _unleeted(view: View, room: Room) -> Iterator[View]:
    """Two readings of `1`, as i and as l; the second only where the text holds a one."""
    blocks = [view.text[at : at + BLOCK + OVER] for at in range(0, len(view.text), BLOCK)]
    wanted = [_readings_of(block, len(blocks) <= SHORT, room) for block in blocks]
    for number, table in enumerate((_LEET, _LEET_L)):
        places = beside(view.text, [number < readings for readings in wanted])
        if places and (shown := translated(view, LEET, table, hidden=False, places=places)):
            yield shown


def _readings_of(block: str, certain: bool, room: Room) -> int:
    """How many readings are worth their price: if the block says more in one, or there is room all the same."""
    both = 1 + ("1" in block)
    if certain:
        return both
    if not _HINTS_AT_LEET.search(block) or not room.is_new(LEET, block):
        return 0
    said = tells(block)
    promising = any(tells(block.translate(table)) > said for table in (_LEET, _LEET_L)[:both])
    readings = both if promising else 1
    return readings if room.takes(3 * readings * BLOCK, promising=promising) else 0


def _joined(text: str) -> Iterator[Run]:
    for found in _APART.finditer(text):
        start, end = found.span()
        word = text[start:end].translate(_SEPARATORS)
        yield Run(start, end, _resegmented(word) if len(word) > 9 else word)


def _mended(text: str) -> Iterator[Run]:
    """Words without the hyphens, stars and tags inside them."""
    for found in _BROKEN.finditer(text):
        start, end = found.span()
        word = text[start:end]
        if "<" in word and _APART_BY_TAGS.search(word):
            continue
        yield Run(start, end, (_TAG.sub("", word) if "<" in word else word).translate(_SIGNS))


def _parted(text: str) -> Iterator[Run]:
    """Words that were written in one."""
    for found in _LONG.finditer(text):
        start, end = found.span()
        yield Run(start, end, _resegmented(text[start:end]))


def _resegmented(letters: str) -> str:
    """`ignoreallprevious` as words again, as far as the vocabulary reaches."""
    return " ".join(_VOCABULARY.sub(r" \g<0> ", letters).split())
