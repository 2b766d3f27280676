"""Words spelled so that a reader still reads them: l3375p34k, l.e.t.t.e.r.s apart, br-ok<b>en</b>, allrunninginone."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from sidecar.views.view import Run, View, assemble, translated

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
_LEET = str.maketrans("0134578@$!|96+€", "oieastbasiiggte")
_LEET_L = str.maketrans("0134578@$!|96+€", "oleastbasllggte")
_APART = re2.compile(
    r"(?:(?:^|\b)\pL(?:[._*|~·/\\\-]{1,2}\pL)+(?:$|\b))|(?:\pL[ \t]){2,}\pL(?:$|\b)|(?:\pL[\r\n]+){2,}\pL(?:$|\b)"
)
_BROKEN = re2.compile(r"\pL+(?:(?:-|\*{1,3}|</?[a-zA-Z]{1,10}>|<!--[^<>]{0,40}-->)+\pL+)+")
_TAG = re2.compile(r"<[^<>]*>")
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


def respelled(view: View, name: str) -> Iterator[View]:
    """The views in which words are written as usual."""
    if name == SPACED:
        view_or_none = assemble(view, SPACED, _joined(view.text), hidden=False)
        return iter([view_or_none] if view_or_none else [])
    if name == LEET:
        return _unleeted(view)
    again = _mended if name == MENDED else _parted
    view_or_none = assemble(view, name, again(view.text), hidden=False)
    return iter([view_or_none] if view_or_none else [])


def _unleeted(view: View) -> Iterator[View]:
    """Two readings of `1`, as i and as l; the second only where the text holds a one."""
    first = translated(view, LEET, _LEET, hidden=False)
    if first:
        yield first
    if "1" in view.text and (second := translated(view, LEET, _LEET_L, hidden=False)):
        yield second


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
        yield Run(start, end, (_TAG.sub("", word) if "<" in word else word).translate(_SIGNS))


def _parted(text: str) -> Iterator[Run]:
    """Words that were written in one."""
    for found in _LONG.finditer(text):
        start, end = found.span()
        yield Run(start, end, _resegmented(text[start:end]))


def _resegmented(letters: str) -> str:
    """`ignoreallprevious` as words again, as far as the vocabulary reaches."""
    return " ".join(_VOCABULARY.sub(r" \g<0> ", letters).split())
