"""Builds the pipeline from the configuration. The list of layers is here, by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from sidecar import __version__, limits, logs, policy, proof, verdicts
from sidecar.config import Settings
from sidecar.engine import ALWAYS, Engine, Stage, Terms
from sidecar.errors import ModelError, PolicyError
from sidecar.layers.llm_judge import LlmJudgeLayer
from sidecar.layers.rules import RulesLayer
from sidecar.layers.semantic import SemanticLayer
from sidecar.metrics import LAYER_FAILURES
from sidecar.policy import Policy, Rule
from sidecar.types import Action, Channel, LayerName, Role
from sidecar.verdicts import Remembering, Verdicts

_CHANNELS = {str(channel): channel for channel in Channel}
_log = logs.get("pipeline")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What every door stands on: the engine the policy that it was built from, and what is missing."""

    engine: Engine
    policy: Policy
    degraded: tuple[str, ...] = ()


@asynccontextmanager
async def pipeline(settings: Settings, *, prove: bool = True, secret: bytes | None = None) -> AsyncIterator[Pipeline]:
    """Load policies and layers, prove every rule of the local layers, and close the layers at the end.

    The judge's questions are not proved here: a start must not wait for, or pay, somebody else's model.
    `secret` is for servers: it keys what is remembered of texts (`sidecar.verdicts`). Without one every text is
    read anew, and to its end: scores are then exact beyond the threshold, too.

    Raises `PolicyError`, `ModelError` or `ConfigError`; nothing is left open then.
    """
    rules = await asyncio.to_thread(policy.load, settings.policies)
    async with AsyncExitStack() as stack:
        degraded: list[str] = []
        stages = await _stages(settings, rules, stack, degraded)
        local = [stage.layer for stage in stages if stage.layer.name is not LayerName.LLM_JUDGE]
        if prove and (problems := await proof.prove(rules, local)):
            raise PolicyError("policies fail their own examples", problems)
        if prove and (problems := await proof.canary(local)):
            raise ModelError("; ".join(problems))
        if secret is not None and settings.cache.entries:
            memory = await verdicts.open(settings.cache, secret)
            stack.push_async_callback(memory.close)
            stages = [_remembering(stage, memory, secret, rules) for stage in stages]
        gate = limits.Concurrency(settings.scan.concurrency, settings.scan.queue)
        yield Pipeline(Engine(stages, _terms(settings, rules, early=secret is not None), gate), rules, tuple(degraded))


async def _stages(settings: Settings, rules: Policy, stack: AsyncExitStack, degraded: list[str]) -> Sequence[Stage]:
    """The layers in their order. The semantic layer is asked until a block is settled; the judge in its band."""
    chosen, failure = settings.layers, settings.failure
    judged = chosen.llm_judge.url is not None and chosen.llm_judge.mode == "decide"
    stages = []
    if chosen.rules.enabled:
        layer = await asyncio.to_thread(RulesLayer, rules)
        stages.append(Stage(layer, failure.rules, ALWAYS))
    if chosen.semantic.enabled:
        semantic = await _semantic(settings, rules, stack, degraded)
        stages += [Stage(semantic, failure.semantic, until_settled=True)] if semantic else []
    if chosen.llm_judge.url is not None:
        judge = LlmJudgeLayer(chosen.llm_judge, _rules_of(rules, "question"), threshold=settings.scan.threshold)
        stack.push_async_callback(judge.close)
        stages.append(Stage(judge, failure.llm_judge, chosen.llm_judge.between, replaces=True, decides=judged))
    return stages


def _remembering(stage: Stage, memory: Verdicts, secret: bytes, rules: Policy) -> Stage:
    """The stage with a memory, if its layer reports segment by segment. What may change its word is in the key."""
    layer, code = stage.layer, f"{__version__} {rules.revision}"
    if isinstance(layer, RulesLayer):
        return replace(stage, layer=Remembering(layer, memory, secret, fingerprint=code, reads_system_prompt=True))
    if isinstance(layer, SemanticLayer):
        return replace(stage, layer=Remembering(layer, memory, secret, fingerprint=f"{code} {layer.fingerprint}"))
    return stage


async def _semantic(
    settings: Settings, rules: Policy, stack: AsyncExitStack, degraded: list[str]
) -> SemanticLayer | None:
    """The semantic layer; None, loudly, if its model is damaged and `failure.semantic` is `skip`."""
    try:
        layer = await asyncio.to_thread(SemanticLayer.load, settings.layers.semantic, _rules_of(rules, "similar_to"))
    except ModelError as error:
        if settings.failure.semantic == "block":
            raise
        _log.error("layer_missing", layer="semantic", error=error)
        LAYER_FAILURES.labels("semantic", "missing").inc()
        degraded.append(f"semantic layer missing: {error}")
        return None
    stack.push_async_callback(layer.close)
    return layer


def _rules_of(rules: Policy, kind: str) -> list[Rule]:
    return [rule for rule in rules.rules if getattr(rule, kind) and rule.status != "retired"]


def _terms(settings: Settings, rules: Policy, *, early: bool) -> Terms:
    thresholds = settings.scan.thresholds.model_dump(exclude_none=True)
    return Terms(
        threshold=settings.scan.threshold,
        deadline=settings.scan.deadline,
        all_failed=Action(settings.failure.all),
        overload=Action(settings.failure.overload),
        too_long=Action(settings.failure.input.oversize),
        revision=rules.revision,
        thresholds={_CHANNELS.get(name) or Role(name): value for name, value in thresholds.items()},
        early=early,
    )
