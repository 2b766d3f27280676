"""Calibrates a model on families, documents and conversations that are held out from training.

A logistic curve is fitted to the worst logits of the holdout rows; then it is shifted until no more of the benign
holdout rows and documents reach the sidecar's threshold than their targets allow. The first stage's early-exit
threshold is chosen on the same texts: as high as possible while hardly any attack that the second stage catches is
lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sidecar.detectors.semantic.artifact import Calibration
from training.scores import Floats, Score, threshold

THRESHOLD, APPLICATION_THRESHOLD = 0.6, 0.9
"""Blocking thresholds: in general, and for the application's own texts."""
ROWS = 0.01
"""Target share of benign holdout rows at or above the threshold: nearly all of them are twins of an attack."""
DOCUMENTS, APPLICATION_DOCUMENTS = 0.005, 0.002
"""The same for holdout documents and conversations, and for the application's texts among them."""
MARGIN = 0.4
"""Logits by which the threshold lies above these targets: unseen documents are stranger than the holdout."""
LONG_PROMPTS, DEFINITIONS = 0.5, 1.35
"""Logits by which the application's longer prompts, and its longer definitions of tools, block earlier than its short
texts, which read like orders of their own. Chosen with sets E to G and J and three authors of set M."""
LOST = 0.05
"""Share of windows that the second stage takes for an attack which the first may dismiss."""


def fit(rows: Sequence[Score], limit: float, block: float = THRESHOLD) -> Calibration:
    """The curve, shifted so that the score `block` lies at the logit `limit`."""
    strength = torch.tensor([s.logit for s in rows], dtype=torch.float32)
    attack = torch.tensor([float(s.row.attack) for s in rows])
    curve = torch.tensor([0.7, 0.0], requires_grad=True)
    optimiser = torch.optim.LBFGS([curve], max_iter=200)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(curve[0] * strength + curve[1], attack)
        value.backward()
        return value

    optimiser.step(loss)
    slope = float(curve.detach()[0])
    return Calibration(slope=slope, offset=_logit(block) - slope * limit)


def earlier(calibration: Calibration, logits: float) -> Calibration:
    """The calibration that has the same probabilities at logits that are lower by this."""
    return calibration.model_copy(update={"offset": calibration.offset + calibration.slope * logits})


def limit(rows: Sequence[Score], documents: Floats, share: float = DOCUMENTS) -> float:
    """The logit that no more benign rows and documents reach than the targets allow; the worst of each document."""
    harmless = np.array([s.logit for s in rows if not s.row.attack])
    return max(threshold(harmless, ROWS), threshold(documents, share)) + 1e-3


def early_exit_threshold(first: Floats, second: Floats, limit: float) -> float:
    """The first stage's highest logit below which at most `LOST` of the windows that reach the limit lie."""
    return float(np.quantile(first[second >= limit], LOST))


def _logit(chance: float) -> float:
    return float(np.log(chance / (1 - chance)))
