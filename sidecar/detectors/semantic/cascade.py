"""Two-stage cascade over a model folder: the first stage exits early on harmless windows, the second scores the rest.

The first stage is a small n-gram network trained to predict the second, at a fortieth of its cost. Where it knows the
vocabulary and finds nothing, the window is taken as harmless. Both ignore invisible characters, and score a disguised
window also in its undisguised spelling. Without a first stage, or where features of every window are needed, the second
scores everything.

Invariant: a window exits early only if the first stage is conclusive and every spelling of it is below the threshold;
its reported logit never exceeds that threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np

from sidecar.detectors.semantic.artifact import Array, Head, ModelArtifact
from sidecar.detectors.semantic.encoder import Encoder, OnnxEncoder, Session, open_encoder
from sidecar.detectors.semantic.paragraphs import parts, parts_among
from sidecar.detectors.semantic.prose import is_prose
from sidecar.detectors.semantic.spellings import alternative_spellings
from sidecar.detectors.semantic.windows import Window
from sidecar.normalization.normalized_text import NormalizedText

FIRST_STAGE_FILE = "first.onnx"
MAX_UNKNOWN_SHARE = 0.2
"""Share of pieces unknown to the vocabulary above which the first stage is not conclusive."""
NO_ATTACK_LOGIT = -20.0
"""The logit of a window without content."""


@dataclass(frozen=True, slots=True)
class FirstStageScore:
    """The first-stage result: how suspicious a window is, and whether an early exit is allowed."""

    suspicion: float
    conclusive: bool


@dataclass(frozen=True, slots=True)
class WindowScore:
    """The logits of a window, its features if the second stage computed them, and the number of runs."""

    logits: Array
    features: Array | None = None
    cost: int = 0


class FirstStage(Protocol):
    """A window of pieces and its channel -> (1, 1): the attack logit."""

    def __call__(self, window: Sequence[int], channel: int) -> Array: ...  # noqa: D102


class CascadeScorer:
    """An opened model folder. Used by one thread at a time."""

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
        """The early-exit threshold, the unknown piece, and a test whether a window can be scored at all."""
        self.encoder, self.head = encoder, head
        self._first, self._early_exit_below, self._unknown_id = first, early_exit_below, unknown_id
        self._is_readable = is_readable

    @classmethod
    def open(cls, artifact: ModelArtifact, threads: int, *, early_exit: bool = True) -> CascadeScorer:
        """Load the weights; without `early_exit` every window has features. Raises `ModelError` naming the file."""
        encoder, limit = open_encoder(artifact, threads), artifact.manifest.early_exit_below
        if not (early_exit and limit is not None and isinstance(encoder, OnnxEncoder)):
            return cls(encoder, artifact.head, is_readable=is_prose)
        first = Session(artifact.folder / FIRST_STAGE_FILE, "logit", encoder.tokenizer, threads)
        unknown_id = encoder.tokenizer.unknown_id
        return cls(encoder, artifact.head, first, early_exit_below=limit, unknown_id=unknown_id, is_readable=is_prose)

    def windows(self, text: str) -> Iterator[Window]:
        """The windows of the text, one by one."""
        return self.encoder.windows(text)

    def shifted_windows(self, text: str, window: Window) -> list[Window]:
        """The window with two other borders: shifted by a quarter both ways, or shorter at an end of the text."""
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

    def decoded(self, view: NormalizedText) -> Iterator[Window]:
        """What the last step of a view put in the place of other text, where that is a window itself."""
        return self._whole(view.text, parts_among(view.replaced, 0, len(view.text)))

    def parts(self, text: str, window: Window, *, lines: bool) -> Iterator[Window]:
        """The paragraphs of a window, and with `lines` their lines, each of which is a window itself."""
        spans = parts(text, window.start, window.end, lines=lines)
        return (part for part in self._whole(text, spans) if part.ids != window.ids)

    def _whole(self, text: str, spans: Iterable[tuple[int, int]]) -> Iterator[Window]:
        for start, end in spans:
            candidates = list(islice(self.encoder.windows(text[start:end]), 2))
            if len(candidates) == 1:
                first, last = start + candidates[0].start, start + candidates[0].end
                yield replace(candidates[0], start=first, end=last, alone=True)

    def first_stage(self, window: Window, channel: int) -> FirstStageScore:
        """The first-stage score. A window that is not prose exits early: it cannot be judged."""
        if not self._is_readable(window.text):
            return FirstStageScore(NO_ATTACK_LOGIT, conclusive=True)
        if self._first is None:
            return FirstStageScore(0.0, conclusive=False)
        logits = [float(self._first(ids, channel)[0, 0]) for ids in self._variants(window)]
        return FirstStageScore(max(logits), self._is_known(window.ids))

    def exits_early(self, score: FirstStageScore) -> bool:
        """Whether the second stage is not needed."""
        return score.conclusive and (self._first is None or score.suspicion < self._early_exit_below)

    def early_exit_score(self, score: FirstStageScore) -> WindowScore:
        """The score of a window with an early exit."""
        logits = np.full(len(self.head.outputs), NO_ATTACK_LOGIT, np.float32)
        logits[self.head.attack] = min(score.suspicion, self._early_exit_below)
        return WindowScore(logits)

    @property
    def has_first_stage(self) -> bool:
        """Whether windows can exit early because of their score."""
        return self._first is not None

    def second_stage(self, window: Window, channel: int, *, every_spelling: bool = False) -> WindowScore:
        """The second-stage score: the worst of the spellings of the window that would not exit early alone, if any.

        Raises `ArithmeticError` if a number is not finite.
        """
        variants = self._variants(window)
        if not every_spelling:
            variants = self._suspicious(variants, channel)
        features = self.encoder.features(variants, [channel] * len(variants))
        logits = self.head.logits(features)
        worst = int(logits[:, self.head.attack].argmax())
        return WindowScore(logits[worst], features[worst], len(variants))

    def _suspicious(self, variants: list[tuple[int, ...]], channel: int) -> list[tuple[int, ...]]:
        """The spellings that would not exit early; all of them if each would."""
        first, limit = self._first, self._early_exit_below
        if first is None or len(variants) == 1:
            return variants
        return [
            ids for ids in variants if not self._is_known(ids) or float(first(ids, channel)[0, 0]) >= limit
        ] or variants

    def _is_known(self, ids: tuple[int, ...]) -> bool:
        """Whether the first stage knows enough of the pieces."""
        return ids.count(self._unknown_id) <= MAX_UNKNOWN_SHARE * len(ids)

    def _variants(self, window: Window) -> list[tuple[int, ...]]:
        """The pieces of the window, and of its undisguised spelling if that differs."""
        alternatives = (next(self.encoder.windows(text), None) for text in alternative_spellings(window.text))
        return [window.ids, *(alternative.ids for alternative in alternatives if alternative is not None)]
