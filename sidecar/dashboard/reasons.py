"""Why a decision was made, in words: the rule that decided, what let a request pass, and a part of the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.storage import ApiKey, DecisionRow
from sidecar.types import Label
from sidecar.util.units import RuleChange, parse_rule_changes

EXCERPT_BEFORE, EXCERPT = 24, 90
"""Code points of an excerpt: before the finding, and in all."""
REPLACED = "its values of personal data were replaced, and the rest was forwarded"


def deciding(entry: DecisionRow) -> Mapping[str, Any] | None:
    """The finding that decided, of highest score; None without one. Of personal data only where the setting decided."""
    personal = entry.setting == "pii"
    candidates = [item for item in entry.findings if item.get("decides") and personal == _is_personal(item)]
    return max(candidates, key=lambda item: item.get("score") or 0, default=None)


def leading(entry: DecisionRow) -> Mapping[str, Any] | None:
    """The finding that a list shows: the deciding one, else the one of highest score."""
    return deciding(entry) or max(entry.findings, key=lambda item: item.get("score") or 0, default=None)


def _is_personal(finding: Mapping[str, Any]) -> bool:
    return finding.get("label") == Label.PII_DETECTED


def excerpt(entry: DecisionRow) -> str:
    """A short part of the kept text, around the finding where its place is known; empty if none is kept."""
    text, finding = entry.text or "", leading(entry)
    item = next((part for part in entry.request or () if finding and part.get("path") == finding.get("path")), None)
    if item and item.get("start", 0) < item.get("end", 0):
        text = text[item["start"] : item["end"]]
    is_whole = len(text) == (item["length"] if item else entry.length)
    begin = max(0, (finding.get("start") or 0) - EXCERPT_BEFORE) if finding and is_whole else 0
    words = " ".join(text[begin : begin + EXCERPT].split())
    return f"{'…' if begin else ''}{words}{'…' if begin + EXCERPT < len(text) else ''}" if words else ""


def reasons_to_allow(entry: DecisionRow, key: ApiKey | None) -> list[str]:
    """Why a request with findings was not refused, in words; empty for one that was, or without findings."""
    if entry.action == "block":
        return []
    reasons = ["monitor mode: it would have been refused otherwise"] if entry.action == "monitor" else []
    if entry.replaced:
        reasons.append(REPLACED)
    if entry.threshold is not None and 0 < entry.risk_score < entry.threshold:
        reasons.append(f"the risk is below the threshold of {entry.threshold:g}")
    changes = parse_rule_changes(key.rules) if key and key.rules else {}
    silent = [finding for finding in entry.findings if not finding.get("decides")]
    excepted = sorted({str(finding["rule"]) for finding in silent if finding.get("excepted")})
    off = sorted(
        {rule for finding in silent if changes.get(rule := str(finding["rule"]), RuleChange()).status == "off"}
    )
    reasons += [f"an exception covers {', '.join(excepted)}"] if excepted else []
    return reasons + ([f"{', '.join(off)} switched off for this key"] if off else [])


def reasons_to_block(entry: DecisionRow) -> list[str]:
    """Why a request was refused, or would have been under enforcement, in words."""
    if entry.recommended != "block" or entry.failure:
        return []
    finding = deciding(entry)
    rule = f"{finding['rule']}" if finding else ""
    if entry.setting == "pii":
        return [f"the setting pii: personal data is not let through{f' ({rule})' if rule else ''}"]
    return [f"{rule} decided"] if rule else []
