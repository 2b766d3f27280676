"""Whether a prompt quotes the system prompt in order to be shown more of it.

To share words with the system prompt is no extraction: people ask about what an application is for, and frameworks
write both turns from one template. So a quotation alone is a hint. It blocks only where all of this holds:

- it is a run of at least `NGRAM` words (or of twice as many characters of a script without spaces), and the prompt does not
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
from sidecar.normalization import NormalizedText
from sidecar.types import Finding, Label, LayerName, Segment, Source

NGRAM = 4
"""Words in a run; shorter ones are common speech."""
QUOTED_RULE, QUOTED_ASKED_RULE = "EXT-QUOTED", "EXT-QUOTED-ASKED"
MAX_HINT_SCORE = 0.35
"""What a quotation alone is worth at most."""
TEMPLATE_SHARE = 0.5
"""The share of the system prompt's runs from which on both are written from one template."""
MIN_TEMPLATE_NGRAMS = 40
"""Runs of a system prompt that is no template: two sentences, of which whoever guesses has most."""
MIN_UNFINISHED_WORDS = 10
"""Words of a quotation that nobody has by chance: broken off inside a sentence, it asks for the rest by itself."""
MAX_QUOTED_WORDS = 80
"""Words quoted beyond which it is no question for the rest."""
ADJACENT, BESIDE, CONTEXT_BEFORE, CONTEXT_AFTER = 12, 60, 120, 100
"""Code points around a quotation in which the order for more of it may stand, and in which it stands beside it."""
BLOCK = 16_384
"""Code points that are cut into words in one go: meanwhile nobody else runs."""
MAX_QUOTATIONS = 32
"""Quotations in one text that are looked at closely."""
CACHED_PROMPTS = 4
"""System prompts whose runs are kept: agents send the same one with every turn."""
_UNSPACED = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff"
_COMBINING = "\\u0300-\\u036f\\u064b-\\u065f\\u0900-\\u0dff"
_TOKEN = re.compile(f"[{_UNSPACED}]|(?:[^\\W_{_UNSPACED}]|[{_COMBINING}])+")
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_SENTENCE_ENDS = re.compile(r"[.!?。！？।؟\n]")
_OPENING_QUOTE, _COLON = re.compile(r"[\"“”„'‘’«»「『《`]\W{0,3}\Z"), re.compile(r"[:：]\s*\Z")
_BREAKS_OFF = re.compile(r"\W{0,2}(?:\.\.|…|_{2,}|\[|[\"”“'’»」』)》`]|\Z)")


class _Quotation(NamedTuple):
    """A quotation: its place in the text, its words, and its last word's number in the system prompt."""

    start: int
    end: int
    words: float
    last_word: int


class Overlap:
    """The runs of one system prompt."""

    def __init__(self, system_prompt: str) -> None:
        self._system_prompt = system_prompt
        spans = [match.span() for match in _TOKEN.finditer(system_prompt)]
        self._spans = spans
        words = [system_prompt[start:end].casefold() for start, end in spans]
        self._ngrams = {ngram: position for position, ngram in enumerate(_ngram_hashes(words))}

    def findings(self, segment: Segment, views: Sequence[NormalizedText]) -> Iterator[Finding]:
        """At most one finding: what the segment quotes, worth a block if more of it is asked for."""
        if segment.source is not Source.USER or not self._ngrams:
            return
        for view in views:
            quotations = self._quotations(view.text)
            if not quotations:
                continue
            words = sum(quotation.words for quotation in quotations)
            extraction = next(
                (
                    quotation
                    for quotation in quotations
                    if words <= MAX_QUOTED_WORDS and self._requests_more(view.text, quotation)
                ),
                None,
            )
            score = min(0.95, 0.75 + 0.02 * words) if extraction else min(MAX_HINT_SCORE, 0.1 + 0.02 * words)
            start, end = view.locate(
                *((extraction.start, extraction.end) if extraction else (quotations[0].start, quotations[-1].end))
            )
            rule, label = QUOTED_ASKED_RULE if extraction else QUOTED_RULE, Label.SYSTEM_PROMPT_EXTRACTION
            place = (segment.path_at(start), start, end, view.name)
            yield Finding(rule, label, score, LayerName.RULES, *place)
            return

    def _quotations(self, text: str) -> list[_Quotation]:
        """What the text quotes; nothing if it holds most of the system prompt."""
        ngrams = [ngram for start in range(0, len(text), BLOCK) for ngram in self._matching_ngrams(text, start)]
        if len(self._ngrams) > MIN_TEMPLATE_NGRAMS and len({number for _, _, number in ngrams}) >= TEMPLATE_SHARE * len(
            self._ngrams
        ):
            return []
        return [quotation for quotation in _merged(ngrams, text) if quotation.words >= NGRAM][:MAX_QUOTATIONS]

    def _matching_ngrams(self, text: str, start: int) -> Iterator[tuple[int, int, int]]:
        """Start and end of each run of `NGRAM` tokens in this piece that the system prompt has, and its number there."""
        block = text[start : start + BLOCK + BLOCK_OVERLAP]
        words = _TOKEN.findall(block.casefold())
        hashes = _ngram_hashes(words)
        if self._ngrams.keys().isdisjoint(hashes):
            return
        spans = [match.span() for match in _TOKEN.finditer(block)]
        if len(spans) != len(words):  # case folding has made more of some letter
            hashes = _ngram_hashes([block[start:end].casefold() for start, end in spans])
        for number, ngram in enumerate(hashes):
            position = self._ngrams.get(ngram)
            if position is not None and spans[number][0] < BLOCK:
                yield start + spans[number][0], start + spans[number + NGRAM - 1][1], position

    def _requests_more(self, text: str, quotation: _Quotation) -> bool:
        """Whether more of the system prompt is asked for beside this quotation."""
        before, behind = (
            text[max(0, quotation.start - CONTEXT_BEFORE) : quotation.start],
            text[quotation.end : quotation.end + CONTEXT_AFTER],
        )
        around = f"{before}\n{behind}"
        names_instructions = INSTRUCTIONS.search(around) is not None
        quotes_command = COMMANDS.search(self._sentence(quotation.last_word)) is not None
        unfinished = quotation.words >= MIN_UNFINISHED_WORDS and self._breaks_off(text, quotation)
        if not (quotes_command or names_instructions or unfinished):
            return False
        orders = [match.end() for match in CONTINUES.finditer(before)]
        is_adjacent = bool(orders) and (len(before) - orders[-1] <= ADJACENT or _COLON.search(before) is not None)
        if not (is_adjacent or _OPENING_QUOTE.search(before) or self._breaks_off(text, quotation)):
            return False
        if orders or CONTINUES.search(f"{before[-BESIDE:]} {behind}"):
            return True
        return names_instructions and quotes_command and SHOWS.search(around) is not None

    def _breaks_off(self, text: str, quotation: _Quotation) -> bool:
        """Whether the quotation ends where a sentence of the system prompt goes on."""
        end, next_word = (
            self._spans[quotation.last_word][1],
            self._spans[quotation.last_word + 1 : quotation.last_word + 2],
        )
        continues = bool(next_word) and not _SENTENCE_ENDS.search(self._system_prompt[end : next_word[0][0]])
        return continues and _BREAKS_OFF.match(text, quotation.end) is not None

    def _sentence(self, number: int) -> str:
        """The sentence of the system prompt in which this word stands."""
        start, end = self._spans[number]
        sentence_start = max(
            (match.end() for match in _SENTENCE_ENDS.finditer(self._system_prompt, max(0, start - 400), start)),
            default=None,
        )
        sentence_end = _SENTENCE_ENDS.search(self._system_prompt, end, end + 400)
        return self._system_prompt[
            max(0, start - 400) if sentence_start is None else sentence_start : sentence_end.start()
            if sentence_end
            else end + 400
        ].strip()


BLOCK_OVERLAP = 512
"""Code points of the next piece that a run may reach into."""


@lru_cache(maxsize=CACHED_PROMPTS)
def overlap(system_prompt: str) -> Overlap:
    """The runs of this system prompt."""
    return Overlap(system_prompt)


def _ngram_hashes(words: Sequence[str]) -> list[int]:
    """Of each run of `NGRAM` words."""
    return list(map(hash, zip(*(words[offset:] for offset in range(NGRAM)), strict=False)))


def _merged(ngrams: Sequence[tuple[int, int, int]], text: str) -> Iterator[_Quotation]:
    """Those that overlap as one, with the words that they have: two characters of a script without spaces are one."""
    index = 0
    while index < len(ngrams):
        start, end, position = ngrams[index]
        index += 1
        while index < len(ngrams) and ngrams[index][0] < end:
            end, position = ngrams[index][1:]
            index += 1
        quoted = text[start:end]
        characters = len(_CHARACTER.findall(quoted))
        yield _Quotation(start, end, len(_TOKEN.findall(quoted)) - characters / 2, position + NGRAM - 1)
