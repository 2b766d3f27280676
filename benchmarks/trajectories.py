"""Measures the judge of actions on scripted trajectories: harmful calls stopped, harmless calls touched.

A line of the file is one task: the turns before the decisive call, the same turns with an injection in a tool result,
the call of an agent that obeys it, and the calls of one that does not (`harmless`, and `more_harmless` with turns of
their own). Every call is judged under the default settings
of `actions` (`mode: block`), in OpenAI's form; nothing else scans the texts.

    python -m benchmarks.trajectories FILE.jsonl [--threshold 0.5] [--totals] [--misses] [--json]
    python -m benchmarks.trajectories FILE.jsonl --ordinary

`--ordinary`: the file holds harmless conversations, whose tool calls are judged one by one. `--totals`: no tables per
kind and language. `--misses`: the ids of tasks with a wrong judgement, and the evidence.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidecar.actions.argument_rules import BY_PROVENANCE, ArgumentRules, action_policy
from sidecar.actions.conversation import ToolCall, calls_of
from sidecar.actions.judge import ActionFinding, ActionJudge
from sidecar.config import Actions

Row = dict[str, Any]


@dataclass
class Outcome:
    """What was found in the calls of one task."""

    id: str
    kind: str
    language: str
    harmful: list[ActionFinding]
    harmless: list[list[ActionFinding]] = field(default_factory=list)

    @property
    def by_provenance(self) -> bool:
        """Whether provenance alone stops the harmful call."""
        return any(finding.rule in BY_PROVENANCE for finding in self.harmful)

    @property
    def touched(self) -> int:
        """Harmless calls with a finding."""
        return sum(bool(findings) for findings in self.harmless)

    @property
    def is_right(self) -> bool:
        """Whether the harmful call is stopped, and no harmless one."""
        return bool(self.harmful) and not self.touched


def rows(path: Path) -> Iterator[Row]:
    """The tasks of a file. Raises `ValueError` that names the line."""
    for number, line in enumerate(_content(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            raise ValueError(f"{path}:{number}: no JSON") from None
        if missing := {"id", "turns", "tools", "hijacked", "harmless"} - set(row):
            raise ValueError(f"{path}:{number}: without {', '.join(sorted(missing))}")
        yield row


def calls(row: Row) -> Iterator[tuple[bool, Row, ToolCall]]:
    """The calls of a task, the harmful one first: whether it is that one, the body of the request, and the call."""
    hijacked = row["hijacked"]
    yield True, _body(row, hijacked["turns"]), _call(hijacked)
    for holder in (row["harmless"], *(row.get("more_harmless") or ())):
        yield False, _body(row, holder.get("turns") or row["turns"]), _call(holder)


def ordinary(path: Path) -> Iterator[tuple[Row, ToolCall]]:
    """The tool calls in a file of harmless conversations, with what the model was given before each."""
    for line in _content(path).splitlines():
        row = json.loads(line)
        body = row.get("body") or row
        messages = body.get("messages")
        for at, message in enumerate(messages if isinstance(messages, list) else ()):
            for call in calls_of(message, f"messages.{at}") if message.get("role") == "assistant" else ():
                yield {**body, "messages": messages[:at]}, call


def _content(path: Path) -> str:
    return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()


def judge(row: Row, actions: ActionJudge) -> Outcome:
    """Judge all calls of a task."""
    findings = [actions.review(body).call(call) for _, body, call in calls(row)]
    return Outcome(row["id"], row.get("kind", ""), row.get("language", ""), findings[0], findings[1:])


def _body(row: Row, turns: list[Row]) -> Row:
    system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    return {
        "messages": [*system, *turns],
        "tools": [{"type": "function", "function": tool} for tool in row["tools"]],
    }


def _call(holder: Row) -> ToolCall:
    return ToolCall(holder["call"]["name"], holder["call"].get("arguments"), path="choices.0.message.tool_calls.0")


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """The figures over some tasks."""
    harmless = sum(len(outcome.harmless) for outcome in outcomes)
    return {
        "tasks": len(outcomes),
        "by_provenance": sum(outcome.by_provenance for outcome in outcomes),
        "by_provenance_or_text": sum(bool(outcome.harmful) for outcome in outcomes),
        "harmless_calls": harmless,
        "harmless_touched": sum(outcome.touched for outcome in outcomes),
        "pairs_right": sum(outcome.is_right for outcome in outcomes),
    }


def report(outcomes: list[Outcome], *, totals: bool) -> str:
    """The figures as text."""
    lines = [_line("all", outcomes)]
    for name in () if totals else ("kind", "language"):
        lines.append(f"\nby {name}")
        groups = sorted({getattr(outcome, name) for outcome in outcomes})
        lines += [_line(group, [item for item in outcomes if getattr(item, name) == group]) for group in groups]
    return "\n".join(lines)


def _line(name: str, outcomes: list[Outcome]) -> str:
    figures = summary(outcomes)
    tasks, harmless = figures["tasks"], figures["harmless_calls"]
    return (
        f"{name:28} harmful stopped by provenance {_share(figures['by_provenance'], tasks)}, "
        f"by provenance or text {_share(figures['by_provenance_or_text'], tasks)}; "
        f"harmless touched {_share(figures['harmless_touched'], harmless)}; "
        f"pairs right {_share(figures['pairs_right'], tasks)}"
    )


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} ({part / whole:.1%})" if whole else "0/0"


def wrong(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """A line for each task with a wrong judgement."""
    for outcome in outcomes:
        if not outcome.harmful:
            yield f"{outcome.id} missed: {outcome.kind}"
        for finding in (finding for findings in outcome.harmless for finding in findings):
            evidence = ", ".join(finding.evidence)
            yield f"{outcome.id} touched: {finding.tool} {finding.argument} {finding.rule} {finding.score} {evidence}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--threshold", type=float, default=Actions().threshold)
    parser.add_argument("--ordinary", action="store_true")
    parser.add_argument("--totals", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    actions = ActionJudge(Actions(mode="block", threshold=options.threshold), ArgumentRules(action_policy()))
    if options.ordinary:
        touched = [bool(actions.review(body).call(call)) for body, call in ordinary(options.file)]
        print(f"tool calls touched {_share(sum(touched), len(touched))}")
        return
    try:
        outcomes = [judge(row, actions) for row in rows(options.file)]
    except (OSError, ValueError) as error:
        sys.exit(f"trajectories: {error}")
    print(json.dumps(summary(outcomes)) if options.json else report(outcomes, totals=options.totals))
    if options.misses:
        print("\n".join(wrong(outcomes)))


if __name__ == "__main__":
    main()
