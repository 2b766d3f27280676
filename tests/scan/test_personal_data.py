"""Twin of sidecar/scan/personal_data.py. That every entry point obeys `pii` is in test_entry_points.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.scan.personal_data import PiiSetting, apply_pii_setting
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Segment, Source, Verdict

MAIL = Finding("PII-100", Label.PII_DETECTED, 0.5, LayerName.RULES, "prompt", 0, 5)


def verdict(*findings: Finding, failure: str | None = None) -> Verdict:
    """An allowing verdict with these findings of the rules layer."""
    report = LayerReport(LayerName.RULES, 0.5, findings)
    return Verdict(0.5, Action.ALLOW, (Label.PII_DETECTED,), 1, LayerName.RULES, failure=failure, reports=(report,))


@pytest.mark.parametrize(("setting", "blocked"), [("flag", False), ("redact", True), ("block", True)])
def test_personal_data_is_refused_unless_it_is_only_flagged(setting: PiiSetting, *, blocked: bool) -> None:
    """A refusal has at least the threshold as score, and names the place."""
    decided = apply_pii_setting(verdict(MAIL), (Segment("a@b.c", path="prompt"),), setting, 0.6)
    assert (decided.action is Action.BLOCK, decided.risk_score) == (blocked, 0.6 if blocked else 0.5)
    assert decided.path == "prompt"


def test_a_joined_reading_counts_under_block_alone() -> None:
    """Words of different texts can look like one number; what is forwarded holds none then."""
    segments = (Segment("a@b.c", path="prompt", joined=True),)
    actions = [apply_pii_setting(verdict(MAIL), segments, setting, 0.6).action for setting in ("redact", "block")]
    assert actions == [Action.ALLOW, Action.BLOCK]


@pytest.mark.parametrize("setting", ["redact", "block"])
def test_what_the_application_holds_is_left_alone(setting: PiiSetting) -> None:
    """Its own text, and its contact address in the user's."""
    mine = Segment("Write to ann@kestrel-ferry.com", Source.APPLICATION, "messages.0.content")
    users = Segment("Is ann@kestrel-ferry.com right?", path="messages.1.content")
    found = replace(MAIL, path="messages.0.content", start=9, end=30)
    asked = replace(MAIL, path="messages.1.content", start=3, end=24)
    assert apply_pii_setting(verdict(found, asked), (mine, users), setting, 0.6).action is Action.ALLOW
    assert apply_pii_setting(verdict(asked), (users,), setting, 0.6).action is Action.BLOCK


def test_hints_attacks_and_failures_stay_as_they_are() -> None:
    """A finding that does not decide, another label, a scan that failed."""
    segments = (Segment("a@b.c", path="prompt"),)
    hint, attack = replace(MAIL, decides=False), replace(MAIL, label=Label.JAILBREAK)
    for same in (verdict(hint), verdict(attack), verdict(MAIL, failure="deadline")):
        assert apply_pii_setting(same, segments, "block", 0.6) is same
