"""Chooses the judge's band: which scores to ask the judge about, its calls and the errors it avoids.

Reads the scores of the other layers, and of the judge if it was measured, as `sidecar eval --out` writes them:

    sidecar eval dev.jsonl.gz --layers rules,semantic --out others.jsonl
    sidecar eval dev.jsonl.gz --layers llm_judge --out judge.jsonl        (optional, slow)
    python -m benchmarks.judge_band dev.jsonl.gz others.jsonl [--judge judge.jsonl] [--attacks 0.02] [--budget 100]

For each band it weights attack and benign rows to the given share of attacks (test sets have more attacks than traffic)
and prints per 1,000 prompts: prompts in the band, judge calls (two where the judge acquits, because of the control),
errors of the other layers in the band, and errors that remain after the judge. Without measured answers the judge is
assumed to have the rates of `--recall` and `--false-positives`. Where the judge gives no answer, the verdict of the
other layers stands. The best band leaves the fewest errors within the budget of calls.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from sidecar.evaluation import read_rows

STEPS = 20


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled row: score of the other layers, probability that the judge blocks it, weight per 1,000 prompts."""

    attack: bool
    score: float
    judge_blocks: float
    weight: float

    def wrong(self, blocked: float) -> float:
        """Weighted error if this row is blocked with this probability."""
        return self.weight * (1.0 - blocked if self.attack else blocked)


@dataclass(frozen=True, slots=True)
class Trade:
    """Calls of a band and the errors it avoids, per 1,000 prompts."""

    low: float
    high: float
    asked: float
    calls: float
    errors_before: float
    errors_after: float

    @property
    def avoided(self) -> float:
        """Errors that the judge corrects, net; negative if it adds more."""
        return self.errors_before - self.errors_after


def trade(cases: Sequence[Case], low: float, high: float, threshold: float) -> Trade:
    """The figures of one band; `high` is excluded, as in the engine."""
    inside = [case for case in cases if low <= case.score < high]
    questions = sum(case.weight for case in inside)
    acquitted = sum(case.weight * (1.0 - case.judge_blocks) for case in inside)
    before = sum(case.wrong(float(case.score >= threshold)) for case in inside)
    after = sum(case.wrong(case.judge_blocks) for case in inside)
    return Trade(low, high, questions, questions + acquitted, before, after)


def bands(threshold: float) -> Iterator[tuple[float, float]]:
    """All bands around the threshold, on a grid of 0.05."""
    edges = [step / STEPS for step in range(STEPS + 1)]
    yield from ((low, high) for low in edges for high in edges if low <= threshold <= high and low < high)


def best(trades: Sequence[Trade], budget: float) -> Trade | None:
    """The band that avoids most errors within the budget of calls, then the cheapest; None if no band avoids any."""
    affordable = [t for t in trades if t.calls <= budget and t.avoided > 0]
    return max(affordable, key=lambda t: (round(t.avoided, 6), -t.calls), default=None)


def cases(
    labelled: Path, scores: Mapping[str, float], judged: Mapping[str, float], arguments: argparse.Namespace
) -> list[Case]:
    """Attack and benign rows that were scored, weighted so that attacks have their share of 1,000 prompts."""
    rows = [row for row in read_rows(labelled) if row.id in scores and (row.attack or row.benign)]
    attacks = sum(row.attack for row in rows)
    if not attacks or attacks == len(rows):
        raise SystemExit("attack and benign rows are both needed")
    shares = {True: 1000 * arguments.attacks / attacks, False: 1000 * (1 - arguments.attacks) / (len(rows) - attacks)}
    result = []
    for row in rows:
        score = scores[row.id]
        assumed = arguments.recall if row.attack else arguments.false_positives
        judge_score = judged.get(row.id, score) if judged else None
        blocks = assumed if judge_score is None else float(judge_score >= arguments.threshold)
        result.append(Case(row.attack, score, blocks, shares[row.attack]))
    return result


def read_scores(path: Path) -> dict[str, float]:
    """`risk_score` by id, of the rows that `sidecar eval --out` could scan."""
    with path.open("rb") as file:
        lines = [orjson.loads(line) for line in file]
    return {line["id"]: line["risk_score"] for line in lines if not line.get("failure")}


def _line(trade: Trade) -> str:
    return (
        f"{trade.low:5.2f} {trade.high:5.2f} {trade.asked:8.1f} {trade.calls:8.1f} "
        f"{trade.errors_before:8.2f} {trade.errors_after:8.2f} {trade.avoided:8.2f}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("labelled", type=Path)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--judge", type=Path)
    parser.add_argument("--attacks", type=float, default=0.02, help="share of attacks in your traffic")
    parser.add_argument("--budget", type=float, default=100.0, help="calls per 1,000 prompts at most")
    parser.add_argument("--recall", type=float, default=0.9, help="of the judge, where it was not measured")
    parser.add_argument("--false-positives", type=float, default=0.05, help="of the judge, where it was not measured")
    parser.add_argument("--threshold", type=float, default=0.6)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Print the Pareto-optimal bands and the best one."""
    arguments = _arguments()
    judged = read_scores(arguments.judge) if arguments.judge else {}
    rows = cases(arguments.labelled, read_scores(arguments.scores), judged, arguments)
    trades = sorted((trade(rows, *band, arguments.threshold) for band in bands(arguments.threshold)), key=_cost)
    chosen = best(trades, arguments.budget)
    if arguments.json:
        print(json.dumps({"best": [chosen.low, chosen.high] if chosen else None, "rows": len(rows)}))
        return
    print(f"{len(rows)} rows, per 1,000 prompts of which {1000 * arguments.attacks:g} are attacks")
    print("  low  high    asked    calls   before    after  avoided")
    for option in frontier(trades):
        print(_line(option))
    print(f"best within {arguments.budget:g} calls: {_line(chosen) if chosen else 'none: no band avoids an error'}")


def _cost(trade: Trade) -> tuple[float, float]:
    return (trade.calls, -trade.avoided)


def frontier(trades: Sequence[Trade]) -> Iterator[Trade]:
    """The Pareto-optimal bands by rising cost: each avoids more errors than all cheaper ones."""
    most = 0.0
    for option in trades:
        if option.avoided > most + 1e-9:
            most = option.avoided
            yield option


if __name__ == "__main__":
    main()
