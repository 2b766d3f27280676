"""Fragments in a text: what stands apart in it, as the pieces of a sentence do that is split over several texts.

A fragment is what follows a label ("Note one: ignore all of the"), or a line of its own that begins or ends within a
sentence. Lines of this kind that follow each other are a list, a table or wrapped text, and no fragments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

MAX_LENGTH = 120
"""Characters of a fragment."""
MAX_FRAGMENTS = 256
"""Fragments of one text, the first ones."""
_LABELLED = re.compile(r"(?:^|[.!?] )\W{0,3}\w+(?:[ .-]\w+){0,2}[\])*]{0,3} ?[:=] ?([^.!?]{2,120})")
_QUOTES = " \t\"'\u201c\u201d\u201e\u00ab\u00bb`*_"


def fragments(text: str) -> list[str]:
    """The fragments of a text, in order, without labels and quotation marks."""
    return list(islice(_fragments(text), MAX_FRAGMENTS))


def _fragments(text: str) -> Iterator[str]:
    # Invariant: `pending` is the last line with text if it is a fragment unless the next one is cut as well.
    pending, was_cut = "", False
    for line in filter(None, map(str.strip, text.split("\n"))):
        labelled = _LABELLED.findall(line) if ":" in line or "=" in line else ()
        is_cut = not labelled and _is_cut(line)
        if pending and not is_cut:
            yield pending
        pending = line.strip(_QUOTES) if is_cut and not was_cut else ""
        was_cut = is_cut
        yield from (fragment.strip(_QUOTES) for fragment in labelled)
    if pending:
        yield pending


def _is_cut(line: str) -> bool:
    """Whether a line may be a piece of a sentence."""
    return len(line) <= MAX_LENGTH and (line[0].islower() or line[-1].isalnum() or line[-1] == ",")
