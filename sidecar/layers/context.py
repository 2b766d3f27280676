"""Whether a hit of an intent rule is an order, or only speaks of one: negated, quoted, described, or a heading.

The words around a hit are read (`BEFORE` and `AFTER` code points of the same view), never the whole text.
What excuses a hit must govern it grammatically: a negation directly before the verb ("never disclose ..."), an odd
number of them ("do not refuse to ..." is an order); a subject that is talked about ("attackers tell the model to ...");
quotation marks, a code block, a table row or a list, and words that say what the quotation is ("phrases such as").
The words themselves are in `sidecar.layers.context_words`. An excuse is no acquittal: the hit becomes a hint.
"""

from __future__ import annotations

from collections.abc import Iterator

import re2

from sidecar.layers import context_words as words

BEFORE, AFTER = 400, 160
"""Code points before and after a hit that may excuse it."""
FRAME, BEHIND = 200, 90
"""Code points before and after a quotation in which it is said what it is."""
OBEY = 80
"""Code points before a quotation in which it is ordered to follow it."""
WORDS, INSIDE = 10, 200
"""Words before a verb that may belong to its negation; code points of a hit in which one is looked for."""
LIST = 12
"""Lines of a list between an item and the line that introduces the list."""
_QUOTES = ("“”", "„“", "«»", "»«", "‘’", "「」", "『』", "《》")
_PLAIN_QUOTES = ("'", '"', "`")


def _options() -> re2.Options:
    chosen = re2.Options()
    chosen.case_sensitive = False
    chosen.never_capture = True
    return chosen


def _pattern(text: str) -> re2._Regexp:
    return re2.compile(text, _options())


_ITEM = _pattern(r"\A\s*(?:[-*•+]|\d{1,2}[.)]|[a-z][.)]|\[[ x]\])\s")
_HEADING = _pattern(r"\A\s{0,3}#{1,6}\s")
_OWN = _pattern(r"\b(?:previous|prior|above|earlier|all|your|you|my|me|override|instructions?)\b")
_NEGATION = _pattern(words.NEGATION)
_GAP = _pattern(words.GAP)
_REFUSED_INSIDE = _pattern(words.REFUSED_INSIDE)
_NEGATED_INSIDE = _pattern(words.NEGATED_INSIDE)
_NEGATED_AFTER = _pattern(words.NEGATED_AFTER)
_NEGATED_LIST = _pattern(words.NEGATED_LIST)
_DESCRIBED = [_pattern(one) for one in words.DESCRIBED]
_FRAMES = _pattern(words.FRAMES)
_OBEY_BEFORE = _pattern(words.OBEY_BEFORE)
_OBEY_AFTER = _pattern(words.OBEY_AFTER)
_ASKED = _pattern(words.ASKED)
_UNTIL = _pattern(words.UNTIL)
_SENTENCE_ENDS = ".!?;\n。！？；।؟"
_ATTACHED = _pattern(r"[\x{590}-\x{6ff}]{1,4}\z")
"""Letters that Semitic languages write in front of a verb without a space: the hit may begin behind them."""


def excuse(text: str, start: int, end: int) -> str:
    """Why the hit at `text[start:end]` is no order: `negated`, `described`, `quoted`, `listed`, `heading`; else ''."""
    start, end = _words_of(text, start, end)
    hit = text[start:end]
    before = text[max(0, start - BEFORE) : start].replace("’", "'")
    after = text[end : end + AFTER].replace("’", "'")
    if _is_negated(before, hit, after):
        return "negated"
    said = _last_sentence(before)
    if said and any(pattern.search(said) for pattern in _DESCRIBED):
        return "described"
    if _is_quoted(before, hit, after):
        return "quoted"
    if _is_listed(before, after):
        return "listed"
    return "heading" if _is_heading(before, hit) else ""


def _words_of(text: str, start: int, end: int) -> tuple[int, int]:
    """The hit without signs at both ends, which may be the marks of the quotation that it is."""
    while start < end and not text[start].isalnum():
        start += 1
    while end > start and not text[end - 1].isalnum():
        end -= 1
    attached = _ATTACHED.search(text[max(0, start - 4) : start])
    return start - len(attached.group()) if attached else start, end


def _is_negated(before: str, hit: str, after: str) -> bool:
    """An odd number of negations governs the verb; in some languages they stand inside the hit, or behind it."""
    count, rest = 0, "" if _ASKED.search(before) else before
    for _ in range(WORDS):
        if found := _NEGATION.search(rest):
            count += 1
        elif not (found := _GAP.search(rest)):
            break
        rest = rest[: found.start()]
    if not count:
        inside = _NEGATED_INSIDE.search(hit[:INSIDE]) and not _REFUSED_INSIDE.search(hit)
        count = bool(inside) or bool(_NEGATED_AFTER.match(after))
    return count % 2 == 1


def _last_sentence(before: str) -> str:
    """What stands before the hit in its own sentence."""
    return before[max(before.rfind(sign) for sign in _SENTENCE_ENDS) + 1 :]


def _is_quoted(before: str, hit: str, after: str) -> bool:
    """Inside quotation marks or a code block that somebody describes, and nobody orders to follow."""
    for opening, closing in _quotations(before, hit, after):
        frame, behind = before[:opening][-FRAME:], after[closing:][:BEHIND]
        if _OBEY_BEFORE.search(frame[-OBEY:]) or _OBEY_AFTER.search(behind):
            return False
        if _FRAMES.search(frame) or _FRAMES.search(behind):
            return True
    return False


def _quotations(before: str, hit: str, after: str) -> Iterator[tuple[int, int]]:
    """Where the quotations that hold the whole hit begin (in `before`) and end (in `after`)."""
    for left, right in map(tuple, _QUOTES):
        opening, closing = before.rfind(left), after.find(right)
        if opening >= 0 and closing >= 0 and right not in before[opening + 1 :] and right not in hit:
            yield opening, closing + len(right)
    for mark in _PLAIN_QUOTES:
        opening, closing = before.rfind(mark), after.find(mark)
        if opening >= 0 and closing >= 0 and mark not in hit and _opens(before, opening):
            yield opening, closing + 1
    fence = before.rfind("```")
    if fence >= 0 and before.count("```") % 2 == 1 and "```" in after:
        yield fence, after.find("```") + 3


def _opens(before: str, at: int) -> bool:
    """Whether a mark that looks the same at both ends opens: behind a space or a sign, and not at the end of a line."""
    previous, following = before[at - 1 : at], before[at + 1 : at + 2]
    return not previous.isalnum() and previous not in {".", "!", "?", ","} and not following.isspace()


def _is_listed(before: str, after: str) -> bool:
    """A row of a table about attacks, or an item of a list whose introduction forbids or describes."""
    line = before.rpartition("\n")[2]
    rest = after.partition("\n")[0]
    if line.count("|") and rest.count("|") and line.lstrip().startswith("|"):
        return bool(_FRAMES.search(line) or _FRAMES.search(rest))
    if not _ITEM.match(line):
        return False
    return _introduces(before[: len(before) - len(line)].rstrip("\n").split("\n")[-LIST:])


def _introduces(lines: list[str]) -> bool:
    """Whether the last line that is no item, and ends with a colon, forbids or describes what follows."""
    for line in reversed(lines):
        if not line.strip() or _ITEM.match(line):
            continue
        said = line.rstrip(" *_")
        if not said.endswith((":", "：")) and not _HEADING.match(line):
            return False
        if _NEGATED_LIST.search(line) and not _UNTIL.search(line):
            return True
        return bool(_FRAMES.search(line)) and not _OBEY_BEFORE.search(line)
    return False


def _is_heading(before: str, hit: str) -> bool:
    """A heading of Markdown that addresses nobody."""
    line = before.rpartition("\n")[2]
    return bool(_HEADING.match(line)) and not _OWN.search(hit)
