"""Requests in a scenario: a role, a setting, a task and an ending around a goal.

A persuasive user (or a program that searches for prompts, as PAIR does; Chao et al., 2023) hides a harmful goal behind
a role, a study, a disclaimer. No sentence of a scenario reveals it, so each goal of `corpus/goals.txt` has a benign
twin, both are used in the same scenarios, and only the goal differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True, slots=True)
class Goal:
    """A harmful and a benign request that begin with a verb."""

    harmful: str
    harmless: str


@dataclass(frozen=True, slots=True)
class Templates:
    """Sentences by their position in a request; those of a task contain `{goal}` or `{Goal}`."""

    role: Sequence[str]
    setting: Sequence[str]
    task: Sequence[str]
    ending: Sequence[str]
    insisting: Sequence[str]

    def harmful(self, goal: Goal, rng: Random) -> str:
        """The harmful goal in a task, with one to six sentences around it."""
        text = self.around(self.task_of(goal.harmful, rng), rng)
        return f"{text} {rng.choice(self.insisting)}" if rng.random() < 0.2 else text

    def harmless(self, goal: Goal, rng: Random) -> str:
        """The twin in a scenario; one in ten without any."""
        task = self.task_of(goal.harmless, rng)
        return task if rng.random() < 0.1 else self.around(task, rng)

    def around(self, request: str, rng: Random) -> str:
        """The request with one to five sentences around it."""
        worn = ((self.role, 0.75), (self.setting, 0.5))
        before = [rng.choice(part) for part, chance in worn if rng.random() < chance]
        after = rng.sample(self.ending, rng.choice([1, 2, 3] if not before else [0, 1, 1, 2, 3]))
        text = rng.choice([" ", " ", " ", "\n", "\n\n"]).join([*before, request, *after])
        return text.lower() if rng.random() < 0.05 else text

    def task_of(self, goal: str, rng: Random) -> str:
        """The goal as a request."""
        return rng.choice(self.task).replace("{goal}", goal).replace("{Goal}", goal[0].upper() + goal[1:])


@cache
def goals() -> tuple[Goal, ...]:
    """All pairs of `goals.txt`."""
    parts = [line.split(" | ") for lines in _sections("goals.txt").values() for line in lines]
    return tuple(Goal(harmful, harmless) for harmful, harmless in parts)


@cache
def templates() -> Templates:
    """All sentences of `scenarios.txt`."""
    return Templates(**_sections("scenarios.txt"))


def _sections(name: str) -> dict[str, list[str]]:
    """The lines of a file under their `[heading]`; comments and empty lines are left out."""
    sections: dict[str, list[str]] = {}
    heading = ""
    for line in (CORPUS / name).read_text("utf-8").splitlines():
        if line.startswith("["):
            heading = line.strip("[]")
        elif line and not line.startswith("#"):
            sections.setdefault(heading, []).append(line)
    return sections
