"""Prompt overlap: detects prompts that quote the system prompt to extract more of it.

Shared words alone are no extraction: people ask about the purpose of an application, and frameworks write both turns
from one template. So a quotation alone is a hint. It blocks only if all of this holds:

- it is a run of at least `NGRAM` words (or twice as many characters of a script without spaces), and the prompt does
  not quote most of the system prompt anyway;
- next to it stands an order to continue where it ends, or to show the instructions themselves (`quotation`);
- it is marked as a quotation, or breaks off inside a sentence of the system prompt;
- the quoted sentence addresses the model ("never mention"), or the order names the instructions, or the quotation
  breaks off and is too long for chance.

Only user text is checked, never tool definitions or tool results.

Invariant: blocks overlap by `BLOCK_OVERLAP` code points and an n-gram belongs to the block in which it starts, so each
shared n-gram of up to `BLOCK_OVERLAP` code points is found exactly once.
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
"""Words in an n-gram; shorter ones are common speech."""
QUOTED_RULE, QUOTED_ASKED_RULE = "EXT-QUOTED", "EXT-QUOTED-ASKED"
MAX_HINT_SCORE = 0.35
"""Maximum score of a quotation alone."""
TEMPLATE_SHARE = 0.5
"""Share of the system prompt's n-grams from which both are taken to come from one template."""
MIN_TEMPLATE_NGRAMS = 40
"""N-grams of a system prompt too short for a template: two sentences, most of which can be guessed."""
MIN_UNFINISHED_WORDS = 10
"""Words of a quotation too long to be chance: if it ends within a sentence, it is in itself a request to continue."""
MAX_QUOTED_WORDS = 80
"""Quoted words beyond which it is not a request for the rest."""
ADJACENT, BESIDE, CONTEXT_BEFORE, CONTEXT_AFTER = 12, 60, 120, 100
"""Code points around a quotation in which an order for more may stand, and in which it counts as adjacent."""
BLOCK = 16_384
"""Code points tokenised at once; no other task runs meanwhile."""
MAX_QUOTATIONS = 32
"""Quotations per text that are examined."""
CACHED_PROMPTS = 4
"""System prompts whose n-grams are cached: agents send the same one with every turn."""
_UNSPACED = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff"
_COMBINING = "\\u0300-\\u036f\\u064b-\\u065f\\u0900-\\u0dff"
_TOKEN = re.compile(f"[{_UNSPACED}]|(?:[^\\W_{_UNSPACED}]|[{_COMBINING}])+")
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_SENTENCE_ENDS = re.compile(r"[.!?。！？।؟\n]")
_OPENING_QUOTE, _COLON = re.compile(r"[\"“”„'‘’«»「『《`]\W{0,3}\Z"), re.compile(r"[:：]\s*\Z")
_BREAKS_OFF = re.compile(r"\W{0,2}(?:\.\.|…|_{2,}|\[|[\"”“'’»」』)》`]|\Z)")


class _Quotation(NamedTuple):
    """A quotation: its place in the text, its words, and the index of its last word in the system prompt."""

    start: int
    end: int
    words: float
    last_word: int


class Overlap:
    """The n-grams of one system prompt."""

    def __init__(self, system_prompt: str) -> None:
        self._system_prompt = system_prompt
        spans = [match.span() for match in _TOKEN.finditer(system_prompt)]
        self._spans = spans
        words = [system_prompt[start:end].casefold() for start, end in spans]
        self._ngrams = {ngram: position for position, ngram in enumerate(_ngram_hashes(words))}

    def findings(self, segment: Segment, views: Sequence[NormalizedText]) -> Iterator[Finding]:
        """At most one finding: what the segment quotes, with a blocking score if it asks for more."""
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
        """The quotations in the text; none if it contains most of the system prompt."""
        ngrams = [ngram for start in range(0, len(text), BLOCK) for ngram in self._matching_ngrams(text, start)]
        if len(self._ngrams) > MIN_TEMPLATE_NGRAMS and len({number for _, _, number in ngrams}) >= TEMPLATE_SHARE * len(
            self._ngrams
        ):
            return []
        return [quotation for quotation in _merged(ngrams, text) if quotation.words >= NGRAM][:MAX_QUOTATIONS]

    def _matching_ngrams(self, text: str, start: int) -> Iterator[tuple[int, int, int]]:
        """Start, end and index in the system prompt of each shared n-gram that starts in this block."""
        block = text[start : start + BLOCK + BLOCK_OVERLAP]
        words = _TOKEN.findall(block.casefold())
        hashes = _ngram_hashes(words)
        if self._ngrams.keys().isdisjoint(hashes):
            return
        spans = [match.span() for match in _TOKEN.finditer(block)]
        if len(spans) != len(words):  # case folding expanded a letter
            hashes = _ngram_hashes([block[start:end].casefold() for start, end in spans])
        for number, ngram in enumerate(hashes):
            position = self._ngrams.get(ngram)
            if position is not None and spans[number][0] < BLOCK:
                yield start + spans[number][0], start + spans[number + NGRAM - 1][1], position

    def _requests_more(self, text: str, quotation: _Quotation) -> bool:
        """Whether the text next to this quotation asks for more of the system prompt."""
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
        """Whether the quotation ends inside a sentence of the system prompt."""
        end, next_word = (
            self._spans[quotation.last_word][1],
            self._spans[quotation.last_word + 1 : quotation.last_word + 2],
        )
        continues = bool(next_word) and not _SENTENCE_ENDS.search(self._system_prompt[end : next_word[0][0]])
        return continues and _BREAKS_OFF.match(text, quotation.end) is not None

    def _sentence(self, number: int) -> str:
        """The sentence of the system prompt that contains this word."""
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
"""Code points of the next block that an n-gram may extend into."""


@lru_cache(maxsize=CACHED_PROMPTS)
def overlap(system_prompt: str) -> Overlap:
    """The n-grams of this system prompt."""
    return Overlap(system_prompt)


def _ngram_hashes(words: Sequence[str]) -> list[int]:
    """The hashes of all n-grams."""
    return list(map(hash, zip(*(words[offset:] for offset in range(NGRAM)), strict=False)))


def _merged(ngrams: Sequence[tuple[int, int, int]], text: str) -> Iterator[_Quotation]:
    """Overlapping n-grams merged, with their words; two characters of a script without spaces count as one word."""
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
