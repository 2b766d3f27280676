"""Twin of sidecar/evaluation/report.py."""

from __future__ import annotations

from sidecar.evaluation import Outcome, Row, report
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict


def verdict(score: float, *threats: Label, failure: str | None = None) -> Verdict:
    """A verdict of this score, by one rule if it blocks; or one that could not be reached."""
    if failure:
        return Verdict(0.0, Action.BLOCK, (), 1, LayerName.SEMANTIC, failure=failure)
    action = Action.BLOCK if score >= 0.6 else Action.ALLOW
    finding = Finding("T-1", Label.JAILBREAK, score, LayerName.RULES, "messages.0.content")
    reports = (LayerReport(LayerName.RULES, score, (finding,)),) if score >= 0.6 else ()
    return Verdict(score, action, threats, 1, LayerName.RULES, reports=reports)


def outcome(
    score: float, *labels: str, benign: bool = False, source: str = "s", failure: str | None = None, **fields: object
) -> Outcome:
    """A row and a verdict of this score."""
    row = Row("r", "text", frozenset(labels), benign, source, **fields)  # type: ignore[arg-type]
    threats = (Label.PII_DETECTED,) if "pii_detected" in labels else ()
    return Outcome(row, verdict(score, *threats, failure=failure), 0.002, said_by="user" if score >= 0.6 else "")


def test_attacks_and_benign_rows_are_counted_apart() -> None:
    """Recall is over attacks, false positives over benign rows, and PII-only rows are neither."""
    outcomes = [
        outcome(0.9, "jailbreak"),
        outcome(0.1, "prompt_injection", source="t"),
        outcome(0.7, benign=True, hard_negative=True),
        outcome(0.0, benign=True),
        outcome(0.9, "pii_detected"),
    ]
    figures = report(outcomes)
    assert (figures["attacks"]["hits"], figures["attacks"]["of"]) == (1, 2)
    assert (figures["benign"]["hits"], figures["benign"]["of"]) == (1, 2)
    assert (figures["hard_negatives"]["rate"], figures["plain"]["rate"]) == (1.0, 0.0)
    assert figures["pii"]["recall"]["rate"] == 1.0
    assert figures["sources"]["t"]["attacks"]["rate"] == 0.0
    assert figures["labels"]["jailbreak"]["rate"] == 1.0


def test_what_could_not_be_scanned_is_neither_a_catch_nor_a_false_positive() -> None:
    """It is counted in a column of its own, left out of every rate, and its causes are listed."""
    failed = [outcome(0, benign=True, failure="deadline"), outcome(0, "jailbreak", failure="too_long")]
    figures = report([*failed, outcome(0.9, "jailbreak"), outcome(0.1, benign=True)])
    assert figures["could_not_scan"] == 2
    assert [figures["attacks"][name] for name in ("hits", "of", "unscanned")] == [1, 1, 1]
    assert [figures["benign"][name] for name in ("hits", "of", "unscanned")] == [0, 1, 1]
    assert figures["unscanned"] == {"deadline": 1, "too_long": 1}
    assert figures["auc"] == 1.0


def test_a_conversation_is_refused_if_any_of_its_requests_is() -> None:
    """Its requests are counted beside it."""
    row = Row("c", "", frozenset(), True, form="conversation", body={"messages": []})
    verdicts = (verdict(0.1), verdict(0.9), verdict(0, failure="deadline"))
    figures = report([Outcome(row, verdicts[1], 0.1, verdicts, "untrusted")])
    assert (figures["plain"]["hits"], figures["plain"]["of"], figures["plain"]["unscanned"]) == (1, 1, 0)
    requests = figures["requests_refused"]["plain"]
    assert (requests["hits"], requests["of"], requests["unscanned"]) == (1, 2, 1)
    assert (figures["requests"], figures["could_not_scan"]) == (3, 0)
    assert figures["causes"]["plain"] == {"T-1": 1}
    assert figures["said_by"]["plain"] == {"untrusted": 1}


def test_groups_show_each_kind_size_and_language() -> None:
    """Hard negatives apart, sizes in their order; a file without kinds has no such group."""
    big = outcome(0.9, benign=True, size=300_000, lang="de")
    groups = report([big, outcome(0.1, benign=True, size=10_000, lang="en", hard_negative=True)])["groups"]
    assert list(groups["size"]) == ["8-32 kB", "> 200 kB"]
    assert groups["language"]["de"]["plain"]["rate"] == 1.0
    assert (groups["language"]["en"]["plain"]["of"], groups["language"]["en"]["hard_negatives"]["of"]) == (0, 1)
    assert groups["kind"] == {}


def test_recall_is_given_at_fixed_rates() -> None:
    """For a file with both kinds; else not at all."""
    recalls = report([outcome(0.9, "jailbreak"), outcome(0.1, benign=True)])["recall_at"]
    assert {rate: share["rate"] for rate, share in recalls.items()} == dict.fromkeys(
        ("0.005", "0.01", "0.02", "0.05"), 1
    )
    assert report([outcome(0.9, "jailbreak")])["recall_at"] == {}
