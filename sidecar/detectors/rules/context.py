"""Context of orders: decides whether a hit of an intent rule is an order or a mention of one.

A mention is negated, quoted, described, listed, scoped or a heading. Only the text around a hit is read
(`CONTEXT_BEFORE` and `CONTEXT_AFTER` code points of the same view), never the whole text. The mitigating words must
govern the hit grammatically: a negation directly before the verb ("never disclose ..."), in odd number ("do not refuse
to ..." is an order); a described subject ("attackers tell the model to ..."); quotation marks, a code block, a table
row or a list, and words that say what the quotation is ("phrases such as"). The word lists are in
`sidecar.detectors.rules.context_words`. A mitigated hit is not dropped, it becomes a hint.

Invariant: adding text outside this context never changes the result for a hit.
"""

from __future__ import annotations

from collections.abc import Iterator

import re2

from sidecar.detectors.rules import context_words as words

CONTEXT_BEFORE, CONTEXT_AFTER = 400, 160
"""Code points before and after a hit that may mitigate it."""
FRAME_BEFORE, FRAME_AFTER = 200, 90
"""Code points before and after a quotation that may say what it is."""
OBEY_REACH = 80
"""Code points before a quotation that may order the model to follow it."""
MAX_NEGATION_WORDS, MAX_HIT = 10, 200
"""Words before a verb that may belong to its negation; code points of a hit searched for one."""
MAX_MENTION, SCOPE_REACH = 50, 70
"""Code points of a quotation besides the hit for it to be part of a sentence; code points after a hit that name its
object."""
MAX_LIST_LINES = 12
"""Lines of a list between an item and the line that introduces the list."""
_QUOTES = ("“”", "„“", "„”", "‚‘", "«»", "»«", "‘’", "「」", "『』", "《》")
_VALUE_MARKS = set("=:,;>\\\"'{[|")
_SYMMETRIC_QUOTES = ("'", '"', "`", "”", "»")


def _options() -> re2.Options:
    options = re2.Options()
    options.case_sensitive = False
    options.never_capture = True
    return options


def _pattern(text: str) -> re2._Regexp:
    return re2.compile(text, _options())


_LIST_ITEM = _pattern(r"\A\s*(?:[-*•+]|\d{1,2}[.)]|[a-z][.)]|\[[ x]\])\s")
_HEADING = _pattern(r"\A\s{0,3}#{1,6}\s")
_SUBHEADING = _pattern(r"\A\s{0,3}#{2,6}\s")
_ADDRESSES_MODEL = _pattern(
    r"\b(?:previous|prior|above|earlier|all|your|you|my|me|override|instructions?|assistants?|agents?|ai|bots?|models?|llms?)\b"
)
_FUNCTION_CALL = _pattern(r"\A[a-z_]+\([a-z_]")
_OPTION = _pattern(r"(?:\A|[\s\[(`'\"|])--\z")
_LETTERS = _pattern(r"[a-z]{3}")
_FENCE = _pattern(r"(?m)^[ \t>]{0,8}```")
_NEGATION = _pattern(words.NEGATION)
_POLARITY_SHIFTER = _pattern(words.POLARITY_SHIFTER)
_NEGATION_GAP = _pattern(words.NEGATION_GAP)
_REFUSED_INSIDE = _pattern(words.REFUSED_INSIDE)
_NEGATED_INSIDE = _pattern(words.NEGATED_INSIDE)
_NEGATED_AFTER = _pattern(words.NEGATED_AFTER)
_TRANSLITERATED_NEGATION = _pattern(words.TRANSLITERATED_NEGATION)
_TRANSLITERATED_NEGATED_AFTER = _pattern(words.TRANSLITERATED_NEGATED_AFTER)
_NEGATED_LIST = _pattern(words.NEGATED_LIST)
_DESCRIBED = [_pattern(pattern) for pattern in words.DESCRIBED]
_FRAMES = _pattern(words.FRAMES)
_SUPERSEDES, _SUPERSEDING = _pattern(words.SUPERSEDES), _pattern(words.SUPERSEDING)
_OBJECT_OF_ORDER = _pattern(words.OBJECT_OF_ORDER)
_COORDINATION = _pattern(words.COORDINATION)
_SENTENCE_FRAGMENT = _pattern(words.SENTENCE_FRAGMENT)
_EXTERNAL_SCOPE = _pattern(words.EXTERNAL_SCOPE)
_ABOUT_MODEL = _pattern(words.ABOUT_MODEL)
_FIRST_PERSON = _pattern(words.FIRST_PERSON)
_OWN_WORDS = _pattern(words.OWN_WORDS)
_EVERYTHING = _pattern(words.EVERYTHING)
_SLIP = _pattern(words.SLIP)
_CANCELLED_OBJECT = _pattern(words.CANCELLED_OBJECT)
_SECOND_PERSON = _pattern(words.SECOND_PERSON)
_HOW_TO = _pattern(words.HOW_TO)
_CANCEL_VERB = _pattern(words.CANCEL_VERB)
_REPLACEMENT_ORDER = _pattern(words.REPLACEMENT_ORDER)
_OBEY_BEFORE = _pattern(words.OBEY_BEFORE)
_OBEY_AFTER = _pattern(words.OBEY_AFTER)
_SUGGESTION = _pattern(words.SUGGESTION)
_NEGATION_END = _pattern(words.NEGATION_END)
_SENTENCE_ENDS = ".!?;\n。！？；।؟"
_ATTACHED = _pattern(r"[\x{590}-\x{6ff}]{1,4}\z")
"""Prefix letters that Semitic languages attach to a verb without a space; the hit may begin after them."""


def mitigation(text: str, start: int, end: int, *, in_latin: bool = False) -> str:
    """The reason why the hit is not an order (one of the names below), or "" if it is one.

    `in_latin`: of a rule for another language in Latin letters, whose negations count there alone.
    """
    start, end = _trim(text, start, end)
    hit = text[start:end]
    before = text[max(0, start - CONTEXT_BEFORE) : start].replace("’", "'")
    after = text[end : end + CONTEXT_AFTER].replace("’", "'")
    checks = (
        ("negated", lambda: _is_negated(before, hit, after, in_latin)),
        ("code", lambda: _FUNCTION_CALL.match(hit)),
        ("code", lambda: _is_option(before, hit)),
        ("asked", lambda: _is_how_to_question(before, hit)),
        ("described", lambda: _is_described(before) or _supersedes(before, hit)),
        ("quoted", lambda: _is_quoted(before, hit, after)),
        ("listed", lambda: _is_listed(before, after)),
        ("scoped", lambda: _is_scoped(hit, after)),
        ("heading", lambda: _is_heading(before, hit)),
    )
    return next((name for name, applies in checks if applies()), "")


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The hit without punctuation at both ends, which may be its quotation marks."""
    while start < end and not text[start].isalnum():
        start += 1
    while end > start and not text[end - 1].isalnum():
        end -= 1
    attached = _ATTACHED.search(text[max(0, start - 4) : start])
    return start - len(attached.group()) if attached else start, end


def _is_negated(before: str, hit: str, after: str, in_latin: bool) -> bool:
    """Whether an odd number of negations governs the verb; in some languages they stand inside or after the hit."""
    preceding = "" if _SUGGESTION.search(before) else before
    negation = _TRANSLITERATED_NEGATION if in_latin else _NEGATION
    after_pattern = _TRANSLITERATED_NEGATED_AFTER if in_latin else _NEGATED_AFTER
    negations = shifters = 0
    for _ in range(MAX_NEGATION_WORDS):
        if match := negation.search(preceding):
            negations += 1
        elif match := _POLARITY_SHIFTER.search(preceding):
            shifters += 1
        elif not (match := _NEGATION_GAP.search(preceding)):
            break
        preceding = preceding[: match.start()]
    if not negations:
        inside = _NEGATED_INSIDE.search(hit[:MAX_HIT]) and not _REFUSED_INSIDE.search(hit)
        negations = bool(inside) or bool(after_pattern.match(after))
    return (negations + shifters) % 2 == 1 and negations > 0


def _is_option(before: str, hit: str) -> bool:
    """Whether the hit is the name of an option of a command."""
    return bool(_OPTION.search(before)) and not any(map(str.isspace, hit))


def _is_how_to_question(before: str, hit: str) -> bool:
    """Whether the text asks how something is done, and the object is not the model's own."""
    return bool(_HOW_TO.search(before)) and not _SECOND_PERSON.search(hit)


def _is_described(before: str) -> bool:
    """Whether the sentence reports that someone else does it, asks for it, or is prevented from it."""
    clause = _last_sentence(before)
    return bool(clause) and any(pattern.search(clause) for pattern in _DESCRIBED)


def _supersedes(before: str, hit: str) -> bool:
    """Whether a document says that it replaces earlier ones."""
    return bool(_SUPERSEDES.search(hit) and _SUPERSEDING.search(_last_sentence(before)))


def _last_sentence(before: str) -> str:
    """The part of the current sentence before the hit."""
    return before[max(before.rfind(mark) for mark in _SENTENCE_ENDS) + 1 :]


def _is_quoted(before: str, hit: str, after: str) -> bool:
    """Whether the hit is in quotation marks or a code block that is described and that nothing orders to follow."""
    for opening, closing in _quotations(before, hit, after):
        frame, behind = before[:opening][-FRAME_BEFORE:], after[closing:][:FRAME_AFTER]
        if _OBEY_BEFORE.search(frame[-OBEY_REACH:]) or _OBEY_AFTER.search(behind):
            return False
        if _FRAMES.search(frame) or _FRAMES.search(behind):
            return True
        if len(before) - opening + closing <= MAX_MENTION and _is_mentioned(frame, behind):
            return True
    return False


def _quotations(before: str, hit: str, after: str) -> Iterator[tuple[int, int]]:
    """Start (in `before`) and end (in `after`) of the quotations that contain the whole hit."""
    for opening_mark, closing_mark in map(tuple, _QUOTES):
        opening, closing = before.rfind(opening_mark), after.find(closing_mark)
        if opening >= 0 and closing >= 0 and closing_mark not in before[opening + 1 :] and closing_mark not in hit:
            yield opening, closing + len(closing_mark)
    for mark in _SYMMETRIC_QUOTES:
        opening, closing = before.rfind(mark), after.find(mark)
        if opening >= 0 and closing >= 0 and mark not in hit and _opens(before, opening):
            yield opening, closing + 1
    fences = [match.start() for match in _FENCE.finditer(before)]
    if len(fences) % 2 == 1 and (closing := after.find("\n```")) >= 0:
        yield fences[-1], closing + 4


def _is_mentioned(frame: str, behind: str) -> bool:
    """Whether a short quotation is part of a sentence about it, and neither the object of an order nor a value."""
    clause, continuation = _last_sentence(frame), _first_sentence(behind)
    if continuation.lstrip()[:1] in {":", "="}:
        return False
    if (
        not _SENTENCE_FRAGMENT.search(clause + continuation)
        or _OBJECT_OF_ORDER.search(clause)
        or clause[-1:] in _VALUE_MARKS
    ):
        return False
    return bool(_SENTENCE_FRAGMENT.search(clause)) or not _COORDINATION.search(behind)


def _first_sentence(after: str) -> str:
    ends = [position for mark in _SENTENCE_ENDS if (position := after.find(mark)) >= 0]
    return after[: min(ends, default=len(after))]


def _is_scoped(hit: str, after: str) -> bool:
    """Whether the order is about one thing in the world, or cancels the speaker's own words, as people do daily."""
    if not _CANCEL_VERB.search(hit):
        return False
    continuation = _first_sentence(after)
    if _OWN_WORDS.search(hit) or _SLIP.search(continuation):
        is_all = _EVERYTHING.search(hit) and any(map(str.isalnum, after))
        return not is_all and not _REPLACEMENT_ORDER.search(continuation)
    if not _CANCELLED_OBJECT.search(hit) or _SECOND_PERSON.search(hit):
        return False
    if _FIRST_PERSON.search(hit):
        return not _REPLACEMENT_ORDER.search(continuation)
    return bool(_EXTERNAL_SCOPE.search(continuation)) and not _ABOUT_MODEL.search(continuation[:SCOPE_REACH])


def _opens(before: str, at: int) -> bool:
    """Whether a symmetric mark opens a quotation: after white space or punctuation, and not at the end of a line."""
    previous, following = before[at - 1 : at], before[at + 1 : at + 2]
    return not previous.isalnum() and previous not in {".", "!", "?", ","} and not following.isspace()


def _is_listed(before: str, after: str) -> bool:
    """A row of a table about attacks, or a list item whose introduction forbids or describes."""
    line = before.rpartition("\n")[2]
    remainder = after.partition("\n")[0]
    if line.count("|") and remainder.count("|") and line.lstrip().startswith("|"):
        return bool(_FRAMES.search(line) or _FRAMES.search(remainder))
    if not _LIST_ITEM.match(line):
        return False
    return _introduces(before[: len(before) - len(line)].rstrip("\n").split("\n")[-MAX_LIST_LINES:])


def _introduces(lines: list[str]) -> bool:
    """Whether the last line that is not an item and ends with a colon forbids or describes what follows."""
    for line in reversed(lines):
        if not line.strip() or _LIST_ITEM.match(line):
            continue
        stripped = line.rstrip(" *_")
        if not stripped.endswith((":", "：")) and not _HEADING.match(line):
            return False
        if _NEGATED_LIST.search(line) and not _NEGATION_END.search(line):
            return True
        return bool(_FRAMES.search(line)) and not _OBEY_BEFORE.search(line)
    return False


def _is_heading(before: str, hit: str) -> bool:
    """A Markdown heading that does not address the model. A single `#` may be a comment."""
    line = before.rpartition("\n")[2]
    return bool(_SUBHEADING.match(line) and _LETTERS.search(hit)) and not _ADDRESSES_MODEL.search(hit)
