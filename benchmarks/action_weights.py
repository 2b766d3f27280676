"""Fits the weights of the evidence about actions (`sidecar/actions/evidence.py`) on trajectories of several authors.

FILES are those of `benchmarks.trajectories`, one for each author; `--ordinary` adds conversations whose tool calls all
count as harmless. Printed are the weights at which .5 is the threshold that so many of the harmless calls of the files
reach (`--touched`), and what each author's tasks would have got by the weights of the others. Fitted is a logistic
regression on the evidence of each call under the present weights: run it again after the weights have changed.

    python -m benchmarks.action_weights FILES... [--ordinary FILE]... [--touched 0.05]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.trajectories import calls, ordinary, rows
from sidecar.actions.argument_rules import ArgumentRules, action_policy
from sidecar.actions.conversation import ToolCall
from sidecar.actions.evidence import WEIGHTS
from sidecar.actions.judge import ActionJudge
from sidecar.config import Actions

NAMES = [name for name, weight in WEIGHTS.items() if weight and name != "finding"]
"""Evidence that is fitted: what has a weight; `finding` needs the layers, which do not run here."""


class Call(NamedTuple):
    """The evidence of one call, in the order of `NAMES`, as values of which the weights are taken times."""

    author: str
    harmful: bool
    values: list[float]


def evidence(judge: ActionJudge, body: Any, call: ToolCall) -> list[float]:
    """The evidence of a call, without the weights."""
    _, assessment = judge.review(body).assess(call, frozenset())
    return [assessment.evidence.get(name, 0.0) / WEIGHTS[name] for name in NAMES]


def fit(calls: Sequence[Call]) -> LogisticRegression:
    """Harmful and harmless calls weigh 1 to 3, however many there are."""
    harmful = np.array([call.harmful for call in calls])
    share = np.where(harmful, (~harmful).sum() / max(1, harmful.sum()) / 3, 1.0)
    model = LogisticRegression(C=1.0, max_iter=5_000)
    return model.fit(np.array([call.values for call in calls]), harmful, sample_weight=share)


def scaled(model: LogisticRegression, calls: Sequence[Call], touched: float) -> dict[str, float]:
    """Weights of which the sum reaches .5 for this share of the harmless calls."""
    sums = np.array([call.values for call in calls if not call.harmful]) @ model.coef_[0]
    limit = float(np.quantile(sums, 1 - touched))
    return {name: round(float(weight) * 0.5 / limit, 2) for name, weight in zip(NAMES, model.coef_[0], strict=True)}


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--ordinary", "others", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--touched", default=0.05, show_default=True, help="Share of the harmless calls that reach .5.")
def main(files: tuple[Path, ...], others: tuple[Path, ...], touched: float) -> None:
    """Print the weights, and what leaving each author out gives."""
    judge = ActionJudge(Actions(mode="block"), ArgumentRules(action_policy()))
    tasks = [
        Call(path.name, harmful, evidence(judge, body, call))
        for path in files
        for row in rows(path)
        for harmful, body, call in calls(row)
    ]
    plain = [Call("", False, evidence(judge, body, call)) for path in others for body, call in ordinary(path)]
    click.echo(json.dumps(scaled(fit([*tasks, *plain]), tasks, touched), indent=1))
    for author in dict.fromkeys(call.author for call in tasks):
        rest = [call for call in tasks if call.author != author]
        weights = np.array(list(scaled(fit([*rest, *plain]), rest, touched).values()))
        scores = {
            kind: np.array([call.values for call in tasks if call.author == author and call.harmful is kind]) @ weights
            for kind in (True, False)
        }
        shares = {kind: f"{(values >= 0.5).sum()} of {len(values)}" for kind, values in scores.items()}
        click.echo(f"{author}: harmful calls stopped {shares[True]}, harmless touched {shares[False]}")


if __name__ == "__main__":
    main()
