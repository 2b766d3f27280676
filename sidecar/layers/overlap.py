"""Whether a prompt quotes the system prompt back, measured on n-grams of words.

Somebody who wants a system prompt shows parts of it, to have them completed, confirmed, translated, encoded,
rhymed or compared. Hardly anybody else repeats runs of its words. So two things are taken: how many words of
the prompt belong to runs of `N` words that the system prompt has too, and whether such work is asked for
(`_ASKS`). Quoting with such a request passes the default threshold; quoting alone stays below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

from sidecar.types import Channel, Finding, Label, LayerName, Segment
from sidecar.views import View

N = 4
"""Words in a run; shorter ones are common speech."""
QUOTED = "EXT-QUOTED"
ASKED = "EXT-QUOTED-ASKED"
_WORD = re2.compile(r"[\pL\pM\pN]+")
_ASKS = re2.compile(
    r"(?i)\b(?:complete|continue|finish|translat|encod|base64|rot13|rhym|poem|rap|song|repeat|spell|summari|paraphras|"
    r"rewrite|rephrase|diff|compare|reverse|backwards|correct|proofread|confirm|yes or no|what comes|comes next|"
    r"next (?:word|line|sentence)|fill in|the rest|verbatim|word for word|exact(?:ly)?)"
)


class Overlap:
    """The runs of one system prompt."""

    def __init__(self, system_prompt: str) -> None:
        words = [word.casefold() for word, _, _ in _words(system_prompt)]
        self._runs = {tuple(words[i : i + N]) for i in range(len(words) - N + 1)}

    def findings(self, segment: Segment, views: Sequence[View]) -> Iterator[Finding]:
        """At most one finding: what the segment quotes, worth more if work on it is asked for."""
        if segment.channel is not Channel.DIRECT or not self._runs:
            return
        for view in views:
            quoted = self._quoted(view.text)
            if quoted is None:
                continue
            start, end, words = quoted
            asked = _ASKS.search(view.text) is not None
            score = min(0.95, (0.6 if asked else 0.3) + 0.02 * words)
            rule = ASKED if asked else QUOTED
            begin, stop = view.locate(start, end)
            yield Finding(
                rule,
                Label.SYSTEM_PROMPT_EXTRACTION,
                score,
                LayerName.RULES,
                segment.path_at(begin),
                begin,
                stop,
                view.name,
            )
            return

    def _quoted(self, text: str) -> tuple[int, int, int] | None:
        """Start and end of what is quoted, and how many words it has."""
        words = list(_words(text))
        folded = [word.casefold() for word, _, _ in words]
        inside = [i for i in range(len(words) - N + 1) if tuple(folded[i : i + N]) in self._runs]
        if not inside:
            return None
        count = len({j for i in inside for j in range(i, i + N)})
        return words[inside[0]][1], words[inside[-1] + N - 1][2], count


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    for found in _WORD.finditer(text):
        yield found.group(), *found.span()
