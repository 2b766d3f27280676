"""Measures the pipeline on labelled rows: recall, false-positive rate, per source, label and channel.

A row is an *attack* if it carries one of the four attack labels, *benign* if it says so; rows with PII
alone count for `pii_detected` and nothing else. "Caught" means that the recommended action is `block`.
Intervals are Wilson's 95 % score intervals (E. B. Wilson, 1927). AUC is the probability that an attack
scores above a benign row, ties counting half (Mann-Whitney). ECE is the expected calibration error of
`risk_score` over ten equal bins (Naeini et al., 2015), on attack and benign rows.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from sidecar import jsons
from sidecar.errors import ConfigError
from sidecar.types import SOURCE_OF, Action, Channel, Label, ScanRequest, Segment, Verdict

ATTACKS = frozenset(Label) - {Label.PII_DETECTED}


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text, as the data format names its fields."""

    id: str
    text: str
    labels: frozenset[str]
    benign: bool
    source: str = ""
    lang: str = ""
    channel: Channel = Channel.DIRECT
    system_prompt: str | None = None
    hard_negative: bool = False
    pii_weak: bool = False
    pii_regex: bool = False

    @property
    def attack(self) -> bool:
        """Whether any of the four attack labels is on it."""
        return bool(self.labels & ATTACKS)

    def request(self) -> ScanRequest:
        """The row as a layer sees it."""
        return ScanRequest((Segment(self.text, SOURCE_OF[self.channel]),), self.system_prompt)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row with what the pipeline said of it; `elapsed` in seconds."""

    row: Row
    verdict: Verdict
    elapsed: float

    @property
    def blocked(self) -> bool:
        """Whether the recommended action was `block`."""
        return self.verdict.action is Action.BLOCK

    def line(self) -> dict[str, object]:
        """What `--out` writes for this row: no text."""
        return {
            "id": self.row.id,
            "risk_score": self.verdict.risk_score,
            "action": self.verdict.action,
            "threats": list(self.verdict.threats),
            "layer_used": self.verdict.layer_used,
            "latency_ms": round(self.elapsed * 1000, 3),
        }


class Share(NamedTuple):
    """`hits` of `of`, with Wilson's 95 % interval."""

    hits: int
    of: int

    @property
    def rate(self) -> float | None:
        """The share, or None of nothing."""
        return self.hits / self.of if self.of else None

    def interval(self, z: float = 1.959964) -> tuple[float, float]:
        """Wilson's score interval."""
        if not self.of:
            return (0.0, 1.0)
        p, n = self.hits / self.of, self.of
        centre, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (max(0.0, (centre - spread) / (1 + z * z / n)), min(1.0, (centre + spread) / (1 + z * z / n)))

    def as_dict(self) -> dict[str, object]:
        """For JSON: rate, interval, counts."""
        rate, (low, high) = self.rate, self.interval()
        return {"rate": rate, "low": round(low, 4), "high": round(high, 4), "hits": self.hits, "of": self.of}


def read_rows(path: Path) -> list[Row]:
    """Read a labelled file, plain or gzipped. Raises `ConfigError` with the numbers of the bad lines."""
    rows, problems = [], []
    try:
        for number, line in _lines(path):
            try:
                rows.append(_row(jsons.loads(line), number))
            except (ValueError, TypeError, KeyError) as error:
                problems.append(f"line {number}: {type(error).__name__}: {error}"[:200])
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} cannot be read", [str(error)]) from None
    if problems:
        raise ConfigError(f"{path}: {len(problems)} bad line(s)", problems[:20])
    return rows


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


def _row(value: Any, number: int) -> Row:
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise TypeError("text: a string is required")
    if not isinstance(value.get("labels") or [], list):
        raise TypeError("labels: a list is required")
    return Row(
        id=str(value.get("id", number)),
        text=value["text"],
        labels=frozenset(value.get("labels") or ()),
        benign=bool(value.get("benign")),
        source=str(value.get("source", "")),
        lang=str(value.get("lang", "")),
        channel=Channel(value.get("channel") or "direct"),
        system_prompt=value.get("system_prompt"),
        hard_negative=bool(value.get("hard_negative")),
        pii_weak=value.get("kind") == "pii_weak",
        pii_regex=bool(value.get("pii_regex")),
    )


def report(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All figures as plain data; `table` in the command line draws from it."""
    failed = [o for o in outcomes if o.verdict.failure]
    return {
        "rows": len(outcomes),
        "could_not_scan": len(failed),
        "attacks": _caught(outcomes, lambda o: o.row.attack).as_dict(),
        "benign": _caught(outcomes, lambda o: o.row.benign).as_dict(),
        "hard_negatives": _caught(outcomes, lambda o: o.row.benign and o.row.hard_negative).as_dict(),
        "auc": auc(_scores(outcomes)),
        "ece": _ece(outcomes),
        "pii": _pii(outcomes),
        "labels": _by_label(outcomes),
        "channels": _attacks_by(outcomes, lambda o: str(o.row.channel)),
        "languages": _attacks_by(outcomes, lambda o: o.row.lang or "?"),
        "sources": _by_source(outcomes),
        "layers": _counts(outcomes),
        "latency_ms": quantiles([o.elapsed for o in outcomes]),
    }


def _caught(outcomes: Sequence[Outcome], which: Callable[[Outcome], bool]) -> Share:
    chosen = [o for o in outcomes if which(o)]
    return Share(sum(o.blocked for o in chosen), len(chosen))


def _groups(outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    return dict(sorted(groups.items()))


def _attacks_by(outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> dict[str, Any]:
    attacks = [o for o in outcomes if o.row.attack]
    return {name: _caught(group, lambda o: o.row.attack).as_dict() for name, group in _groups(attacks, key).items()}


def _by_label(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Of the rows with a label: how many are blocked, and how many are blocked under that label's name."""
    found = {}
    for label in sorted(ATTACKS):
        rows = [o for o in outcomes if label in o.row.labels]
        named = Share(sum(label in o.verdict.threats for o in rows), len(rows))
        found[str(label)] = {**_caught(rows, lambda _: True).as_dict(), "named": named.rate}
    return found


def _by_source(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        name: {
            "attacks": _caught(group, lambda o: o.row.attack).as_dict(),
            "benign": _caught(group, lambda o: o.row.benign).as_dict(),
        }
        for name, group in _groups(outcomes, lambda o: o.row.source or "?").items()
    }


def _pii(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    def found(chosen: list[Outcome]) -> Share:
        return Share(sum(Label.PII_DETECTED in o.verdict.threats for o in chosen), len(chosen))

    with_pii = [o for o in outcomes if Label.PII_DETECTED in o.row.labels]
    without = [o for o in outcomes if o.row.benign and not o.row.pii_weak and not o.row.pii_regex]
    return {"recall": found(with_pii).as_dict(), "false_positives": found(without).as_dict()}


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return {name: len(group) for name, group in _groups(outcomes, lambda o: str(o.verdict.layer_used)).items()}


def _scores(outcomes: Sequence[Outcome]) -> list[tuple[float, bool]]:
    return sorted((o.verdict.risk_score, o.row.attack) for o in outcomes if o.row.attack or o.row.benign)


def auc(scores: Iterable[tuple[float, bool]]) -> float | None:
    """Of pairs of a score and whether the row is an attack; None unless there are both kinds."""
    scored = sorted(scores)
    positives = sum(attack for _, attack in scored)
    negatives = len(scored) - positives
    if not positives or not negatives:
        return None
    wins, below = 0.0, 0
    for _, tied in groupby(scored, key=lambda pair: pair[0]):
        attacks = [attack for _, attack in tied]
        level = len(attacks) - sum(attacks)
        wins += sum(attacks) * (below + level / 2)
        below += level
    return round(wins / (positives * negatives), 4)


def _ece(outcomes: Sequence[Outcome], bins: int = 10) -> float | None:
    scored = _scores(outcomes)
    if not scored:
        return None
    error = 0.0
    for index in range(bins):
        inside = [(s, a) for s, a in scored if min(bins - 1, int(s * bins)) == index]
        if inside:
            error += abs(sum(s for s, _ in inside) - sum(a for _, a in inside)) / len(scored)
    return round(error, 4)


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """In milliseconds; nothing of nothing."""
    ordered = sorted(seconds)
    if not ordered:
        return {}
    wanted = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(len(ordered) - 1, int(q * len(ordered)))] * 1000, 3) for name, q in wanted.items()}
