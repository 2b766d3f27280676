"""The setting `pii`: when personal data in a request refuses it, the same at every entry point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from sidecar.scan.known_values import application_values
from sidecar.types import Action, Finding, Label, Segment, Source, Verdict

PiiSetting = Literal["flag", "redact", "block"]


def apply_pii_setting(verdict: Verdict, segments: Sequence[Segment], setting: PiiSetting, threshold: float) -> Verdict:
    """The verdict, blocking with a score of at least `threshold` if it has personal data that `pii` does not allow.

    The application's own texts do not count, nor what they hold, such as a contact address in a system prompt.
    Under `redact` an entry point that can rewrite texts has replaced the data before the scan, so what is found was
    not replaced. Joined texts do not count then: words of different texts can look like one number.
    """
    if setting == "flag" or verdict.failure is not None or verdict.action is Action.BLOCK:
        return verdict
    blocking = list(_blocking(verdict.findings, segments, setting)) if any(map(_is_personal, verdict.findings)) else []
    if not blocking:
        return verdict
    score = max(verdict.risk_score, threshold)
    return replace(verdict, action=Action.BLOCK, risk_score=score, blocking_path=blocking[0].path, setting="pii")


def _blocking(findings: Sequence[Finding], segments: Sequence[Segment], setting: PiiSetting) -> Iterator[Finding]:
    by_path = {path: segment for segment in segments if not segment.joined for path in segment.paths}
    known = application_values(segments)
    for finding in filter(_is_personal, findings):
        segment = by_path.get(finding.path)
        if segment is None:
            if setting == "block":
                yield finding
        elif segment.source is not Source.APPLICATION and segment.text[finding.start : finding.end] not in known:
            yield finding


def _is_personal(finding: Finding) -> bool:
    return finding.label is Label.PII_DETECTED and finding.decides
