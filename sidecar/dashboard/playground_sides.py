"""Two sides of the playground: a key, a threshold and a policy set each, whose verdicts are shown beside each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sidecar.dashboard.forms import Checks, Form, refused
from sidecar.scan.engine import Engine
from sidecar.storage import ApiKey
from sidecar.types import Verdict

POLICIES = {"": "those in force", "shadow": "shadow.policies"}
PREFIX = "other_"
"""Of the fields of the second side."""
FIELDS = ("key", "threshold", "policies")
Find = Callable[[str], Awaitable[ApiKey | None]]
"""Finds a key that the user may see."""


@dataclass(frozen=True, slots=True)
class Side:
    """How texts are judged on one side. `threshold`: in place of that of the key or the settings.

    `prefix`: of its fields in the form.
    """

    key: ApiKey | None = None
    threshold: float | None = None
    policies: str = ""
    prefix: str = ""

    @property
    def profile(self) -> str | None:
        """The profile of the key; none with the second policy set, which belongs to the settings for all."""
        return self.key.profile if self.key and not self.policies else None

    @property
    def caller(self) -> ApiKey | None:
        """The key to scan as: one without an id, name and exceptions where only the threshold differs."""
        if self.threshold is None:
            return self.key
        return replace(self.key or ApiKey("", "", "", datetime.now(UTC)), threshold=self.threshold)

    def blocks_from(self, default: float) -> float:
        """The score from which a text is blocked, given that of the settings."""
        caller = self.caller
        return default if caller is None or caller.threshold is None else caller.threshold

    def engine(self, engine: Engine, of_profiles: Mapping[str, Engine]) -> Engine:
        """The engine to scan with, given the one in force and those of profiles. Raises `RequestError`."""
        if self.profile is not None:
            if self.profile not in of_profiles:
                detail = "The profile of this key is not configured; its requests are refused."
                raise refused(400, detail, param=f"{self.prefix}key")
            return of_profiles[self.profile]
        if self.policies and engine.shadow is None:
            raise refused(400, "There is no second policy set (shadow.policies).", param=f"{self.prefix}policies")
        return engine.shadow or engine if self.policies else engine


@dataclass(frozen=True, slots=True)
class Pair:
    """One text with the verdicts of both sides."""

    text: str
    first: Verdict
    second: Verdict

    @property
    def differs(self) -> bool:
        """Whether the two come to different actions."""
        return self.first.action is not self.second.action


async def read_sides(form: Form, find: Find, checks: Checks) -> list[Side]:
    """One side, or two if a field of the second is filled in. What is wrong is noted in `checks`."""
    has_second = any(form.get(PREFIX + name, "").strip() for name in FIELDS)
    return [await _read(form, find, checks, prefix) for prefix in ("", PREFIX)[: 1 + has_second]]


async def _read(form: Form, find: Find, checks: Checks, prefix: str) -> Side:
    key_id = checks.read(lambda: form.text(f"{prefix}key"))
    key = await find(key_id) if key_id else None
    if key_id and key is None:
        checks.note(f"{prefix}key", "There is no such key.")
    policies = checks.read(lambda: form.choice(f"{prefix}policies", POLICIES))
    return Side(key, checks.read(lambda: form.number(f"{prefix}threshold", 0, 1)), policies or "", prefix)


def rules_of(verdict: Verdict, opposite: Verdict) -> list[tuple[str, bool]]:
    """The rules of a verdict, each with whether only this side has it."""
    opposite_rules = {finding.rule for finding in opposite.findings}
    return [(rule, rule not in opposite_rules) for rule in dict.fromkeys(finding.rule for finding in verdict.findings)]
