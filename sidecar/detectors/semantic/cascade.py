"""What a model folder says of windows: a first stage settles the clear ones, the second reads the rest.

The first stage is a small network of n-grams that has learnt what the second would say, and costs a fortieth of it.
Where it knows the letters and finds nothing, the window is settled as harmless. Both are spared what shows nothing, and
read a disguised window also as a reader would take it. Without a first stage, or where features are needed of every
window, the second reads everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import re2

from sidecar.detectors.semantic.artifact import Array, Head, ModelArtifact
from sidecar.detectors.semantic.encoder import Encoder, OnnxEncoder, Session, open_encoder
from sidecar.detectors.semantic.prose import is_prose
from sidecar.detectors.semantic.windows import Window
from sidecar.normalization.folding import fold, strip_invisible

FIRST_STAGE_FILE = "first.onnx"
MAX_UNKNOWN_SHARE = 0.2
"""Share of pieces that the vocabulary does not know from which the first stage settles nothing."""
MIN_ASCII_SHARE = 0.9
"""Share of ASCII letters from which a text without accents and look-alikes is what a reader would take it for; of a
Russian one it is about 0.7, of a Greek one 0.8."""
MIN_WESTERN_LETTERS = 24
"""Western letters in a text of others from which they are read alone, too."""
TOLERATED = 3
"""Capitals, or signs that part words, that any text may have."""
MAX_CAPITALS_SHARE = 0.12
"""Share of capitals among letters: a harmless row of the corpus has 0.03 in English and 0.07 in German (medians; one in
25 has more than this), Words Like These 0.24."""
NO_ATTACK_LOGIT = -20.0
"""The logits of a window that says nothing."""
_SEPARATORS = str.maketrans(dict.fromkeys("_-./|+~*=:;,\n", " "))
_WORD = re2.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*\p{Latin}[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*")
_FOREIGN = re2.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True, slots=True)
class FirstStageScore:
    """What the first stage says of a window: how suspicious it is, and whether it may settle it if it is not."""

    suspicion: float
    conclusive: bool


@dataclass(frozen=True, slots=True)
class WindowScore:
    """The logits of a window, its features if the second stage read it, and how many readings that took."""

    logits: Array
    features: Array | None = None
    cost: int = 0


class FirstStage(Protocol):
    """A window of pieces, and who wrote it -> (1, 1): the attack logit."""

    def __call__(self, window: Sequence[int], channel: int) -> Array: ...  # noqa: D102


def alternative_spellings(text: str) -> list[str]:
    """How a text may be read beside what it shows: at most one other way."""
    visible = strip_invisible(text)
    alternative = _plain_case_and_spaces(_ascii_form(visible))
    return [alternative] if alternative != visible else []


def _ascii_form(text: str) -> str:
    """A western text without accents and look-alikes, or the western part of another, if it has one."""
    if text.isascii():
        return text
    plain = fold(text)
    return plain if _is_western(plain) else _western_part(text) or text


def _plain_case_and_spaces(text: str) -> str:
    """Small letters if there are more capitals than texts have, and spaces if something else parts the words."""
    if sum(map(str.isupper, text)) > max(TOLERATED, MAX_CAPITALS_SHARE * sum(map(str.isalpha, text))):
        text = text.lower()
    spaced = text.translate(_SEPARATORS)
    return spaced if spaced.count(" ") > max(TOLERATED, 3 * text.count(" ")) else text


def _western_part(text: str) -> str:
    """What a text in other letters has of ASCII, once Latin words are plain; nothing if that is a name or two."""
    plain = _WORD.sub(lambda word: fold(word[0]), text)
    part = _FOREIGN.sub(" ", plain)
    return part if sum(map(str.isalpha, part)) >= MIN_WESTERN_LETTERS else ""


def _is_western(text: str) -> bool:
    if text.isascii():
        return True
    letters = [letter for letter in text if letter.isalpha()]
    return sum(map(str.isascii, letters)) >= MIN_ASCII_SHARE * len(letters)


class CascadeScorer:
    """A model folder, opened. Used by one thread at a time."""

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        first: FirstStage | None = None,
        *,
        early_exit_below: float = NO_ATTACK_LOGIT,
        unknown_id: int = -1,
        is_readable: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """The limit of the first stage, the piece that it does not know, and what is worth reading at all."""
        self.encoder, self.head = encoder, head
        self._first, self._early_exit_below, self._unknown_id = first, early_exit_below, unknown_id
        self._is_readable = is_readable

    @classmethod
    def open(cls, artefact: ModelArtifact, threads: int, *, early_exit: bool = True) -> CascadeScorer:
        """Load the weights; without `exits_early` every window has features. Raises `ModelError` that names the file."""
        encoder, limit = open_encoder(artefact, threads), artefact.manifest.early_exit_below
        if not (early_exit and limit is not None and isinstance(encoder, OnnxEncoder)):
            return cls(encoder, artefact.head, is_readable=is_prose)
        first = Session(artefact.folder / FIRST_STAGE_FILE, "logit", encoder.tokenizer, threads)
        unknown_id = encoder.tokenizer.unknown_id
        return cls(encoder, artefact.head, first, early_exit_below=limit, unknown_id=unknown_id, is_readable=is_prose)

    def windows(self, text: str) -> Iterator[Window]:
        """The text in windows, one by one."""
        return self.encoder.windows(text)

    def shifted_windows(self, text: str, window: Window) -> list[Window]:
        """The window with two other borders: moved back and on by a quarter, or shorter where the text ends."""
        length = window.end - window.start
        quarter, shortened = length // 4, length * 3 // 5
        earlier = (
            (window.start - quarter, window.end - quarter) if window.start >= quarter else (0, window.start + shortened)
        )
        later = (window.start + quarter, window.end + quarter)
        if later[1] > len(text):
            later = (window.end - shortened, window.end)
        shifted = [next(self.encoder.windows(text[start:end]), None) for start, end in (earlier, later)]
        return [candidate for candidate in shifted if candidate is not None and candidate.ids != window.ids]

    def first_stage(self, window: Window, channel: int) -> FirstStageScore:
        """What the first stage says. A window that is not readable is settled: nothing in it can be judged."""
        if not self._is_readable(window.text):
            return FirstStageScore(NO_ATTACK_LOGIT, conclusive=True)
        if self._first is None:
            return FirstStageScore(0.0, conclusive=False)
        logits = [float(self._first(ids, channel)[0, 0]) for ids in self._variants(window)]
        return FirstStageScore(max(logits), window.ids.count(self._unknown_id) <= MAX_UNKNOWN_SHARE * len(window.ids))

    def exits_early(self, score: FirstStageScore) -> bool:
        """Whether the second stage need not read the window."""
        return score.conclusive and (self._first is None or score.suspicion < self._early_exit_below)

    def early_exit_score(self, score: FirstStageScore) -> WindowScore:
        """What is said of a window that the first stage has settled."""
        logits = np.full(len(self.head.outputs), NO_ATTACK_LOGIT, np.float32)
        logits[self.head.attack] = min(score.suspicion, self._early_exit_below)
        return WindowScore(logits)

    def second_stage(self, window: Window, channel: int) -> WindowScore:
        """What the second stage says: the worst of the window's readings.

        Raises `ArithmeticError` if a number is not finite.
        """
        variants = self._variants(window)
        features = self.encoder.features(variants, [channel] * len(variants))
        logits = self.head.logits(features)
        worst = int(logits[:, self.head.attack].argmax())
        return WindowScore(logits[worst], features[worst], len(variants))

    def _variants(self, window: Window) -> list[tuple[int, ...]]:
        """The pieces of the window, and of what a reader may take it for if that is something else."""
        alternatives = (next(self.encoder.windows(text), None) for text in alternative_spellings(window.text))
        return [window.ids, *(alternative.ids for alternative in alternatives if alternative is not None)]
