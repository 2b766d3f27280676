"""Whether a prompt quotes the system prompt in order to be shown more of it.

To share words with the system prompt is no extraction: people ask about what an application is for, and frameworks
write both turns from one template. So a quotation alone is a hint. It blocks only where all of this holds:

- it is a run of at least `N` words (or of twice as many characters of a script without spaces), and the prompt does not
  quote most of the system prompt anyway;
- beside it stands the order to go on where it ends, or to show the instructions themselves (`quotation`);
- it is set off as a quotation, or breaks off inside a sentence of the system prompt;
- what it quotes speaks to the model ("never mention"), or the order names the instructions, or it is so long that
  nobody has it by chance, and breaks off.

Only what a user says is looked at, never tool definitions or what tools return.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from sidecar.detectors.rules.quotation import COMMANDS, CONTINUES, INSTRUCTIONS, SHOWS
from sidecar.normalization import View
from sidecar.types import Finding, Label, LayerName, Segment, Source

N = 4
"""Words in a run; shorter ones are common speech."""
QUOTED, ASKED = "EXT-QUOTED", "EXT-QUOTED-ASKED"
HINT = 0.35
"""What a quotation alone is worth at most."""
MOST = 0.5
"""The share of the system prompt's runs from which on both are written from one template."""
SHORT = 40
"""Runs of a system prompt that is no template: two sentences, of which whoever guesses has most."""
LONG_RUN = 10
"""Words of a quotation that nobody has by chance: broken off inside a sentence, it asks for the rest by itself."""
LONG = 80
"""Words quoted beyond which it is no question for the rest."""
NEAR, CLOSE, BEFORE, BEHIND = 12, 60, 120, 100
"""Code points around a quotation in which the order for more of it may stand, and in which it stands beside it."""
PIECE = 16_384
"""Code points that are cut into words in one go: meanwhile nobody else runs."""
RUNS = 32
"""Quotations in one text that are looked at closely."""
KEPT = 4
"""System prompts whose runs are kept: agents send the same one with every turn."""
_UNSPACED = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff"
_MARKS = "\\u0300-\\u036f\\u064b-\\u065f\\u0900-\\u0dff"
_TOKEN = re.compile(f"[{_UNSPACED}]|(?:[^\\W_{_UNSPACED}]|[{_MARKS}])+")
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_SENTENCE_ENDS = re.compile(r"[.!?。！？।؟\n]")
_QUOTED, _SAID = re.compile(r"[\"“”„'‘’«»「『《`]\W{0,3}\Z"), re.compile(r"[:：]\s*\Z")
_BREAKS_OFF = re.compile(r"\W{0,2}(?:\.\.|…|_{2,}|\[|[\"”“'’»」』)》`]|\Z)")


class _Run(NamedTuple):
    """A quotation: its place in the text, its words, and its last word's number in the system prompt."""

    start: int
    end: int
    words: float
    last: int


class Overlap:
    """The runs of one system prompt."""

    def __init__(self, system_prompt: str) -> None:
        self._prompt = system_prompt
        spans = [found.span() for found in _TOKEN.finditer(system_prompt)]
        self._spans = spans
        words = [system_prompt[start:end].casefold() for start, end in spans]
        self._runs = {run: at for at, run in enumerate(_hashes(words))}

    def findings(self, segment: Segment, views: Sequence[View]) -> Iterator[Finding]:
        """At most one finding: what the segment quotes, worth a block if more of it is asked for."""
        if segment.source is not Source.USER or not self._runs:
            return
        for view in views:
            runs = self._quoted(view.text)
            if not runs:
                continue
            words = sum(run.words for run in runs)
            asked = next((run for run in runs if words <= LONG and self._is_asked(view.text, run)), None)
            score = min(0.95, 0.75 + 0.02 * words) if asked else min(HINT, 0.1 + 0.02 * words)
            start, end = view.locate(*((asked.start, asked.end) if asked else (runs[0].start, runs[-1].end)))
            rule, label = ASKED if asked else QUOTED, Label.SYSTEM_PROMPT_EXTRACTION
            place = (segment.path_at(start), start, end, view.name)
            yield Finding(rule, label, score, LayerName.RULES, *place)
            return

    def _quoted(self, text: str) -> list[_Run]:
        """What the text quotes; nothing if it holds most of the system prompt."""
        found = [_found for at in range(0, len(text), PIECE) for _found in self._met(text, at)]
        if len(self._runs) > SHORT and len({number for _, _, number in found}) >= MOST * len(self._runs):
            return []
        return [run for run in _runs(found, text) if run.words >= N][:RUNS]

    def _met(self, text: str, at: int) -> Iterator[tuple[int, int, int]]:
        """Start and end of each run of `N` tokens in this piece that the system prompt has, and its number there."""
        piece = text[at : at + PIECE + OVER]
        words = _TOKEN.findall(piece.casefold())
        hashes = _hashes(words)
        if self._runs.keys().isdisjoint(hashes):
            return
        spans = [found.span() for found in _TOKEN.finditer(piece)]
        if len(spans) != len(words):  # case folding has made more of some letter
            hashes = _hashes([piece[start:end].casefold() for start, end in spans])
        for number, run in enumerate(hashes):
            place = self._runs.get(run)
            if place is not None and spans[number][0] < PIECE:
                yield at + spans[number][0], at + spans[number + N - 1][1], place

    def _is_asked(self, text: str, run: _Run) -> bool:
        """Whether more of the system prompt is asked for beside this quotation."""
        before, behind = text[max(0, run.start - BEFORE) : run.start], text[run.end : run.end + BEHIND]
        around = f"{before}\n{behind}"
        named = INSTRUCTIONS.search(around) is not None
        speaks = COMMANDS.search(self._sentence(run.last)) is not None
        unfinished = run.words >= LONG_RUN and self._breaks_off(text, run)
        if not (speaks or named or unfinished):
            return False
        orders = [found.end() for found in CONTINUES.finditer(before)]
        close = bool(orders) and (len(before) - orders[-1] <= NEAR or _SAID.search(before) is not None)
        if not (close or _QUOTED.search(before) or self._breaks_off(text, run)):
            return False
        if orders or CONTINUES.search(f"{before[-CLOSE:]} {behind}"):
            return True
        return named and speaks and SHOWS.search(around) is not None

    def _breaks_off(self, text: str, run: _Run) -> bool:
        """Whether the quotation ends where a sentence of the system prompt goes on."""
        here, behind = self._spans[run.last][1], self._spans[run.last + 1 : run.last + 2]
        goes_on = bool(behind) and not _SENTENCE_ENDS.search(self._prompt[here : behind[0][0]])
        return goes_on and _BREAKS_OFF.match(text, run.end) is not None

    def _sentence(self, number: int) -> str:
        """The sentence of the system prompt in which this word stands."""
        start, end = self._spans[number]
        begun = max((f.end() for f in _SENTENCE_ENDS.finditer(self._prompt, max(0, start - 400), start)), default=None)
        ends = _SENTENCE_ENDS.search(self._prompt, end, end + 400)
        return self._prompt[
            max(0, start - 400) if begun is None else begun : ends.start() if ends else end + 400
        ].strip()


OVER = 512
"""Code points of the next piece that a run may reach into."""


@lru_cache(maxsize=KEPT)
def overlap(system_prompt: str) -> Overlap:
    """The runs of this system prompt."""
    return Overlap(system_prompt)


def _hashes(words: Sequence[str]) -> list[int]:
    """Of each run of `N` words."""
    return list(map(hash, zip(*(words[at:] for at in range(N)), strict=False)))


def _runs(found: Sequence[tuple[int, int, int]], text: str) -> Iterator[_Run]:
    """Those that overlap as one, with the words that they have: two characters of a script without spaces are one."""
    at = 0
    while at < len(found):
        start, end, place = found[at]
        at += 1
        while at < len(found) and found[at][0] < end:
            end, place = found[at][1:]
            at += 1
        quoted = text[start:end]
        characters = len(_CHARACTER.findall(quoted))
        yield _Run(start, end, len(_TOKEN.findall(quoted)) - characters / 2, place + N - 1)
