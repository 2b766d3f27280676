"""The figures of a labelled file as plain data; the command line renders them as tables.

Three counts: requests, units (rows, documents, conversations), and pairs. A conversation is refused if any of its
requests is. A pair counts where the attack is caught and its benign twin passes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sidecar.evaluation import baselines, pairing
from sidecar.evaluation.outcomes import Outcome, is_refused
from sidecar.evaluation.rows import ATTACKS, LARGEST, SIZES
from sidecar.evaluation.shares import RATES, Scored, Share, auc, ece, quantiles, recall_at
from sidecar.types import Label

Figures = dict[str, Any]
FORMS = {"row": "rows", "document": "documents", "conversation": "conversations"}
_SIZE_ORDER = [name for _, name in SIZES] + [LARGEST]
_GROUPS: dict[str, Callable[[Outcome], str]] = {
    "form": lambda o: FORMS[o.row.form],
    "size": lambda o: o.row.size_class,
    "kind": lambda o: o.row.kind or "?",
    "language": lambda o: o.row.lang or "?",
    "operation": lambda o: o.row.operation or "?",
}


def report(outcomes: Sequence[Outcome]) -> Figures:
    """All figures."""
    plain = [o for o in outcomes if o.row.benign and not o.row.hard_negative]
    hard = [o for o in outcomes if o.row.benign and o.row.hard_negative]
    attacks = [o for o in outcomes if o.row.attack]
    scores = _scores(outcomes)
    return {
        "rows": len(outcomes),
        "requests": sum(len(o.verdicts) for o in outcomes),
        "could_not_scan": sum(o.unscanned for o in outcomes),
        "unlabelled": sum(o.row.unlabelled for o in outcomes),
        "attacks": caught(attacks).as_dict(),
        "benign": caught(plain + hard).as_dict(),
        "hard_negatives": caught(hard).as_dict(),
        "plain": caught(plain).as_dict(),
        "requests_refused": {
            "attacks": _requests(attacks).as_dict(),
            "plain": _requests(plain).as_dict(),
            "hard_negatives": _requests(hard).as_dict(),
        },
        "pairs": pairing.share(pairing.pairs(outcomes)).as_dict(),
        "auc": auc(scores),
        "ece": ece(scores),
        "recall_at": {f"{rate:g}": share.as_dict() for rate in RATES if (share := recall_at(scores, rate))},
        "baselines": baselines.figures([o.row for o in outcomes]),
        "causes": {"plain": _causes(plain), "hard_negatives": _causes(hard), "attacks": _causes(attacks)},
        "said_by": {"plain": _said_by(plain), "hard_negatives": _said_by(hard), "attacks": _said_by(attacks)},
        "unscanned": _counts(o.cause for o in outcomes if o.unscanned),
        "groups": {name: _group(outcomes, key) for name, key in _GROUPS.items()},
        "pii": _pii(outcomes),
        "labels": _by_label(outcomes),
        "channels": _attacks_by(attacks, lambda o: str(o.row.channel)),
        "languages": _attacks_by(attacks, lambda o: o.row.lang or "?"),
        "sources": _by_source(outcomes),
        "layers": _counts(str(o.verdict.layer_used) for o in outcomes),
        "latency_ms": quantiles([o.elapsed for o in outcomes]),
    }


def caught(outcomes: Iterable[Outcome]) -> Share:
    """The share of refused units among those that were scanned."""
    selection = list(outcomes)
    unscanned = sum(o.unscanned for o in selection)
    return Share(sum(o.blocked for o in selection), len(selection) - unscanned, unscanned)


def _requests(outcomes: Iterable[Outcome]) -> Share:
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    unscanned = sum(verdict.failure is not None for verdict in verdicts)
    return Share(sum(map(is_refused, verdicts)), len(verdicts) - unscanned, unscanned)


def _counts(names: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(name for name in names if name).most_common())


def _causes(outcomes: Iterable[Outcome]) -> dict[str, int]:
    return _counts(o.cause for o in outcomes if o.blocked)


def _said_by(outcomes: Iterable[Outcome]) -> dict[str, int]:
    return _counts(o.said_by for o in outcomes if o.blocked)


def _groups(outcomes: Iterable[Outcome], key: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    return dict(sorted(groups.items(), key=lambda item: (_place(item[0]), item[0])))


def _place(name: str) -> int:
    return _SIZE_ORDER.index(name) if name in _SIZE_ORDER else -1


def _group(outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> Figures:
    """Figures for each group; empty if no unit has a group name."""
    pairs: dict[str, list[pairing.Pair]] = defaultdict(list)
    for pair in pairing.pairs(outcomes):
        pairs[key(pair.attack)].append(pair)
    groups = _groups(outcomes, key)
    return {
        name: {
            "attacks": caught(o for o in group if o.row.attack).as_dict(),
            "plain": caught(o for o in group if o.row.benign and not o.row.hard_negative).as_dict(),
            "hard_negatives": caught(o for o in group if o.row.benign and o.row.hard_negative).as_dict(),
            "pairs": pairing.share(pairs[name]).as_dict(),
        }
        for name, group in groups.items()
        if set(groups) != {"?"}
    }


def _attacks_by(attacks: Sequence[Outcome], key: Callable[[Outcome], str]) -> Figures:
    return {name: caught(group).as_dict() for name, group in _groups(attacks, key).items()}


def _by_label(outcomes: Sequence[Outcome]) -> Figures:
    """For each label: the share of its rows that is blocked, and blocked with that label among the threats."""
    figures = {}
    for label in sorted(ATTACKS & set(Label)):
        rows = [o for o in outcomes if label in o.row.labels]
        named_share = Share(sum(label in o.verdict.threats for o in rows), len(rows))
        figures[str(label)] = {**caught(rows).as_dict(), "named": named_share.rate}
    return figures


def _by_source(outcomes: Sequence[Outcome]) -> Figures:
    return {
        name: {
            "attacks": caught(o for o in group if o.row.attack).as_dict(),
            "benign": caught(o for o in group if o.row.benign).as_dict(),
        }
        for name, group in _groups(outcomes, lambda o: o.row.source or "?").items()
    }


def _pii(outcomes: Sequence[Outcome]) -> Figures:
    def named_share(selection: list[Outcome]) -> Share:
        scanned = [o for o in selection if not o.unscanned]
        hits = sum(Label.PII_DETECTED in o.verdict.threats for o in scanned)
        return Share(hits, len(scanned), len(selection) - len(scanned))

    with_pii = [o for o in outcomes if Label.PII_DETECTED in o.row.labels]
    without = [o for o in outcomes if o.row.benign and not o.row.pii_weak and not o.row.pii_regex]
    return {"recall": named_share(with_pii).as_dict(), "false_positives": named_share(without).as_dict()}


def _scores(outcomes: Sequence[Outcome]) -> list[Scored]:
    scored = [o for o in outcomes if (o.row.attack or o.row.benign) and not o.unscanned]
    return sorted((o.verdict.risk_score, o.row.attack) for o in scored)
