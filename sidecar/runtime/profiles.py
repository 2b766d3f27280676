"""The scanners of profiles (`sidecar.config.profiles`).

A profile has rules and an engine of its own; it shares the model, the judge, the cache and the slots of the general
scanner. Only policies of its own with other `similar_to` rules or questions need a second model or judge, and the
second judge has its own budget of calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from sidecar import policy
from sidecar.config import Profile, RuleOverride, Settings
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import PolicyError, ProblemsError
from sidecar.policy import Policy
from sidecar.policy.switches import apply_switches, is_action_rule
from sidecar.runtime.builder import (
    Parts,
    Scanner,
    ServerContext,
    assemble,
    open_judge,
    open_semantic,
    rules_of,
    run_selftests,
)
from sidecar.scan.engine import ANY_SCORE, Stage
from sidecar.types import LayerName


@asynccontextmanager
async def open_profiles(
    settings: Settings, base: Scanner, server: ServerContext | None = None
) -> AsyncIterator[dict[str, Scanner]]:
    """The scanners by the names of the profiles. Raises `PolicyError` or `ModelError`, which name the profile."""
    async with AsyncExitStack() as stack:
        scanners = {}
        for name, profile in settings.profiles.items():
            try:
                scanners[name] = await _open(settings, name, profile, base, server, stack)
            except ProblemsError as error:
                raise PolicyError(f"profile {name}: {str(error).partition(chr(10))[0]}", error.problems) from None
        yield scanners


async def _open(
    settings: Settings,
    name: str,
    profile: Profile,
    base: Scanner,
    server: ServerContext | None,
    stack: AsyncExitStack,
) -> Scanner:
    terms, parts = settings.of_profile(name), base.parts
    if parts is None:
        raise PolicyError("profiles", ["the general scanner has no parts to share"])
    source_policy, rules = await _policies(settings, profile, base)
    degraded: list[str] = []
    stages = await _stages(terms, rules, base, parts, server, stack, degraded)
    if profile.policies is not None:
        await run_selftests(source_policy, rules, [stage.layer for stage in stages], server)
    return Scanner(assemble(terms, rules, stages, parts, server), rules, source_policy, tuple(degraded))


async def _policies(settings: Settings, profile: Profile, base: Scanner) -> tuple[Policy, Policy]:
    """The policy as written and with all switches. Switches for all that name no rule of its own do not count."""
    source_policy = base.source_policy
    if profile.policies is not None:
        source_policy = await asyncio.to_thread(policy.load, profile.policies)
    ids = {rule.id for rule in source_policy.rules}
    general = {name: switch for name, switch in settings.rules.items() if name in ids}
    return source_policy, apply_switches(source_policy, {**general, **_own_switches(profile.rules)})


def _own_switches(switches: Mapping[str, RuleOverride]) -> dict[str, RuleOverride]:
    if actions := [name for name in switches if is_action_rule(name)]:
        raise PolicyError("rules", [f"rules.{actions[0]}: rules on actions hold for all, not for a profile"])
    return dict(switches)


async def _stages(
    terms: Settings,
    rules: Policy,
    base: Scanner,
    parts: Parts,
    server: ServerContext | None,
    stack: AsyncExitStack,
    degraded: list[str],
) -> list[Stage]:
    """The stages in order, shared ones where nothing that they read differs."""
    semantic, judge = parts.shared(LayerName.SEMANTIC), parts.shared(LayerName.LLM_JUDGE)
    stages: list[Stage] = []
    if not terms.layers.semantic.enabled:
        semantic = None
    elif _differs("similar_to", rules, base.policy):
        layer = await open_semantic(terms, rules, stack, degraded)
        semantic = None if layer is None else Stage(layer, skip_if_settled=True)
    if terms.layers.rules.enabled:
        stages.append(await _rules_stage(terms, rules, base, parts, unaided=semantic is None))
    if semantic is not None:
        stages.append(replace(semantic, on_failure=terms.failure.semantic))
    if terms.layers.llm_judge.url is not None:
        if judge is None or _differs("question", rules, base.policy):
            judge = await open_judge(terms, rules, server, stack)
        stages.append(replace(judge, on_failure=terms.failure.llm_judge))
    return stages


async def _rules_stage(terms: Settings, rules: Policy, base: Scanner, parts: Parts, *, unaided: bool) -> Stage:
    general = parts.shared(LayerName.RULES)
    layer = general.layer if general is not None else None
    if not isinstance(layer, RulesLayer) or layer.unaided != unaided or rules.revision != base.policy.revision:
        layer = await asyncio.to_thread(RulesLayer, rules, unaided=unaided)
    return Stage(layer, terms.failure.rules, ANY_SCORE)


def _differs(kind: str, rules: Policy, general: Policy) -> bool:
    return _described(rules, kind) != _described(general, kind)


def _described(rules: Policy, kind: str) -> Sequence[str]:
    return [rule.model_dump_json() for rule in rules_of(rules, kind)]
