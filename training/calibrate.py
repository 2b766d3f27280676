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
LENGTH = 0.6
"""Logits that a text must show more for every e-fold of windows: chosen on `dev`, between what fits sources left out of
an earlier training (0.74) and what its long harmless texts need; the families held back are too short to say."""


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
    return Calibration(slope=slope, offset=offset - max(0.0, excess), per_log_windows=-LENGTH * slope)


def _strength(scores: Sequence[Score]) -> Floats:
    """Logits, less what many windows add by chance."""
    return np.array([s.logit - LENGTH * float(np.log(max(1, s.windows))) for s in scores])


def _reached(scores: Sequence[Score], target: float) -> float:
    """The strength that at most this share of harmless rows reaches."""
    harmless = [strength for strength, s in zip(_strength(scores), scores, strict=True) if not s.row.attack]
    return float(np.quantile(harmless, 1 - target))
