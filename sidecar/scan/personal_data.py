"""The setting `pii`: when personal data in a request refuses it, the same at every entry point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from sidecar.types import Action, Finding, Label, Segment, Verdict

PiiSetting = Literal["flag", "redact", "block"]


def apply_pii_setting(verdict: Verdict, segments: Sequence[Segment], setting: PiiSetting, threshold: float) -> Verdict:
    """The verdict, blocking with a score of at least `threshold` if it has personal data that `pii` does not allow.

    Under `redact` an entry point that can rewrite texts has replaced the data before the scan, so what is found was not
    replaced. Joined texts do not count then: words of different texts can look like one number.
    """
    if setting == "flag" or verdict.failure is not None or verdict.action is Action.BLOCK:
        return verdict
    scanned_paths = {path for segment in segments if not segment.joined for path in segment.paths}
    blocking = [f for f in verdict.findings if _is_personal(f) and (setting == "block" or f.path in scanned_paths)]
    if not blocking:
        return verdict
    score = max(verdict.risk_score, threshold)
    return replace(verdict, action=Action.BLOCK, risk_score=score, blocking_path=blocking[0].path)


def _is_personal(finding: Finding) -> bool:
    return finding.label is Label.PII_DETECTED and finding.decides
