"""Calibration without flattery: on the families that are held back from training, never on `dev`.

A logistic curve on the worst logit, made smaller for texts of many windows (the highest of many is high by
chance); then the curve is moved until the threshold of the sidecar lets through no more of the held-back
harmless rows than the target.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sidecar.layers.artefact import Calibration
from training.scores import Floats, Score

THRESHOLD = 0.6
TARGET = 0.025
"""Share of held-back harmless rows at or above the threshold. Nearly all of them are near neighbours of attacks, many
the twin of one; of the harmless texts of `dev`, where this was looked up, a fifth as many reach it."""
LENGTH = 0.7
"""Logits that a text must show more for every e-fold of windows: with `MOST_WINDOWS` chosen on long harmless documents
(1.1 % of conversations and at most 2.2 % of any size class refused) and on attacks planted in them."""
MOST_WINDOWS = 20
"""Windows from which more ask no more. Without an end no logit is high enough in 100 kB. Of 136 attacks planted in
documents of 32 to 200 kB 32 are found with it."""


def fit(scores: Sequence[Score], target: float = TARGET) -> Calibration:
    """The curve, then its offset for the target."""
    strength = torch.tensor(_strength(scores), dtype=torch.float32)
    attack = torch.tensor([float(s.row.attack) for s in scores])
    curve = torch.tensor([0.7, 0.0], requires_grad=True)
    optimiser = torch.optim.LBFGS([curve], max_iter=200)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(curve[0] * strength + curve[1], attack)
        value.backward()
        return value

    optimiser.step(loss)
    slope, offset = (float(value) for value in curve.detach())
    excess = slope * _reached(scores, target) + offset - float(np.log(THRESHOLD / (1 - THRESHOLD)))
    offset -= max(0.0, excess)
    return Calibration(slope=slope, offset=offset, per_log_windows=-LENGTH * slope, most_windows=MOST_WINDOWS)


def _strength(scores: Sequence[Score]) -> Floats:
    """Logits, less what many windows add by chance."""
    return np.array([s.logit - LENGTH * float(np.log(max(1, min(s.windows, MOST_WINDOWS)))) for s in scores])


def _reached(scores: Sequence[Score], target: float) -> float:
    """The strength that at most this share of harmless rows reaches."""
    harmless = [strength for strength, s in zip(_strength(scores), scores, strict=True) if not s.row.attack]
    return float(np.quantile(harmless, 1 - target))
