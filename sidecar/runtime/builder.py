"""Builds the pipeline from the configuration. The list of layers is here, by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sidecar import __version__, limits, policy
from sidecar.config import Settings
from sidecar.detectors.judge import cache
from sidecar.detectors.judge.layer import LlmJudgeLayer
from sidecar.detectors.rules import selftest, selftest_cache
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import ModelError, PolicyError
from sidecar.observability.metrics import LAYER_FAILURES
from sidecar.policy import Policy, Rule
from sidecar.policy.switches import switched
from sidecar.scan import cache as verdicts
from sidecar.scan import shadow
from sidecar.scan.cache import CachedLayer, ReportCache
from sidecar.scan.engine import ALWAYS, Engine, Exempting, Stage, Terms
from sidecar.storage import Disagreements
from sidecar.types import Action, LayerName
from sidecar.util import logs

if TYPE_CHECKING:
    from sidecar.detectors.semantic.layer import SemanticLayer

SHADOW_AT_ONCE = 4
OPINIONS = verdicts.Codec("opinion", cache.size, cache.dump, cache.load)
_log = logs.get("pipeline")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What every door stands on: the engine the policy that it was built from, and what is missing."""

    engine: Engine
    policy: Policy
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Serving:
    """What a server has, and a command on one text has not.

    `secret` keys what is remembered of texts (`sidecar.scan.cache`). Without it every text is read anew, and to its
    end: scores are then exact beyond the threshold, too. `proven`: rules that a reload need not prove again.
    """

    secret: bytes
    exemptions: Exempting | None = None
    disagreements: Disagreements | None = None
    proven: set[Rule] = field(default_factory=set)


@asynccontextmanager
async def pipeline(
    settings: Settings, *, prove: bool = True, secret: bytes | None = None, serving: Serving | None = None
) -> AsyncIterator[Pipeline]:
    """Load policies and layers, prove every rule of the local layers, and close the layers at the end.

    The judge's questions are not proved here: a start must not wait for, or pay, somebody else's model.
    `secret` alone is short for `Serving(secret)`.

    Raises `PolicyError`, `ModelError` or `ConfigError`; nothing is left open then.
    """
    serving = serving or (Serving(secret) if secret is not None else None)
    rules = switched(await asyncio.to_thread(policy.load, settings.policies), settings.rules)
    async with AsyncExitStack() as stack:
        degraded: list[str] = []
        stages = await _stages(settings, rules, stack, degraded)
        if settings.layers.llm_judge.url is not None:
            stages.append(await _judge(settings, rules, serving, stack))
        await _prove(rules, stages, serving, prove=prove)
        memory = await _memory(settings, serving, stack)
        stages = [_remembering(stage, memory, serving, rules) for stage in stages]
        bulkhead = limits.counted_bulkhead(settings.scan.concurrency, settings.scan.queue)
        terms = _terms(settings, rules, early=serving is not None)
        engine = Engine(stages, terms, bulkhead, serving.exemptions if serving else None)
        if serving is not None and serving.disagreements is not None and settings.shadow.policies:
            beside = await _beside(settings, engine, memory, serving)
            watching = shadow.Shadow(beside, settings.shadow, serving.disagreements)
            await watching.start()
            stack.push_async_callback(watching.close)
            engine.watcher = watching.watch
        yield Pipeline(engine, rules, tuple(degraded))


async def _prove(rules: Policy, stages: Sequence[Stage], serving: Serving | None, *, prove: bool) -> None:
    """A server trusts what was proved before (`selftest_cache`); a command such as `check` proves everything."""
    if not prove:
        return
    local = [stage.layer for stage in stages if stage.layer.name is not LayerName.LLM_JUDGE]
    known = serving.proven if serving else set[Rule]()
    if serving:
        known |= await asyncio.to_thread(selftest_cache.recall, rules.rules)
    if problems := await selftest.prove(rules, local, known):
        raise PolicyError("policies fail their own examples", problems)
    if problems := await selftest.canary(local):
        raise ModelError("; ".join(problems))
    await asyncio.to_thread(selftest_cache.keep, known)


async def _memory(settings: Settings, serving: Serving | None, stack: AsyncExitStack) -> ReportCache | None:
    if serving is None or not settings.cache.entries:
        return None
    memory = await verdicts.open(settings.cache, serving.secret, verdicts.REPORT_CODEC)
    stack.push_async_callback(memory.close)
    return memory


async def _beside(settings: Settings, engine: Engine, memory: ReportCache | None, serving: Serving) -> Engine:
    """The second policy set over the same model: what was read for the first is remembered for the second."""
    rules = await asyncio.to_thread(policy.load, settings.shadow.policies)
    stages = [Stage(RulesLayer(rules), "skip")]
    await _prove(rules, stages, serving, prove=True)
    stages = [_remembering(stage, memory, serving, rules) for stage in stages]
    stages += [replace(s, on_failure="skip") for s in engine.stages if s.layer.name is LayerName.SEMANTIC]
    bulkhead = limits.counted_bulkhead(SHADOW_AT_ONCE, shadow.PENDING)
    return Engine(stages, _terms(settings, rules, early=True), bulkhead, serving.exemptions)


async def _stages(settings: Settings, rules: Policy, stack: AsyncExitStack, degraded: list[str]) -> list[Stage]:
    """The local layers in their order. The semantic layer is asked until a block is settled."""
    chosen, failure = settings.layers, settings.failure
    stages = []
    if chosen.rules.enabled:
        layer = await asyncio.to_thread(RulesLayer, rules)
        stages.append(Stage(layer, failure.rules, ALWAYS))
    if chosen.semantic.enabled:
        semantic = await _semantic(settings, rules, stack, degraded)
        stages += [Stage(semantic, failure.semantic, until_settled=True)] if semantic else []
    return stages


async def _judge(settings: Settings, rules: Policy, serving: Serving | None, stack: AsyncExitStack) -> Stage:
    """The judge, asked in its band; a server's remembers its opinions where the verdicts are remembered."""
    judge, memory = settings.layers.llm_judge, None
    if serving is not None and judge.cache:
        sized = settings.cache.model_copy(update={"entries": judge.cache})
        memory = await verdicts.open(sized, serving.secret, OPINIONS)
        stack.push_async_callback(memory.close)
    layer = LlmJudgeLayer(
        judge,
        _rules_of(rules, "question"),
        threshold=settings.scan.threshold,
        memory=memory,
        secret=serving.secret if serving else None,
    )
    stack.push_async_callback(layer.close)
    decides = judge.mode == "decide"
    return Stage(layer, settings.failure.llm_judge, judge.between, replaces=True, decides=decides)


def _remembering(stage: Stage, memory: ReportCache | None, serving: Serving | None, rules: Policy) -> Stage:
    """The stage with a memory, if its layer reports segment by segment. What may change its word is in the key."""
    layer, code = stage.layer, f"{__version__} {rules.revision}"
    if memory is None or serving is None:
        return stage
    if isinstance(layer, RulesLayer):
        known = CachedLayer(layer, memory, serving.secret, fingerprint=code, reads_system_prompt=True)
        return replace(stage, layer=known)
    if layer.name is LayerName.SEMANTIC and (model := getattr(layer, "fingerprint", None)):
        return replace(stage, layer=CachedLayer(layer, memory, serving.secret, fingerprint=f"{code} {model}"))
    return stage


async def _semantic(
    settings: Settings, rules: Policy, stack: AsyncExitStack, degraded: list[str]
) -> SemanticLayer | None:
    """The semantic layer; None, loudly, if its model is damaged and `failure.semantic` is `skip`."""
    from sidecar.detectors.semantic.layer import SemanticLayer  # noqa: PLC0415 - 30 MB that who has it off need not hold

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
    sources, models = settings.scan.sources.by_source, settings.models
    return Terms(
        threshold=settings.scan.threshold,
        deadline=settings.scan.deadline,
        deadline_per_mb=settings.scan.deadline_per_mb,
        all_failed=Action(settings.failure.all),
        overload=Action(settings.failure.overload),
        too_long=Action(settings.failure.input.oversize),
        budget=Action(settings.failure.input.budget),
        revision=rules.revision,
        thresholds={source: one.threshold for source, one in sources.items() if one.threshold is not None},
        layers={source: frozenset(one.layers) for source, one in sources.items()},
        model_thresholds={name: one.threshold for name, one in models.items() if one.threshold is not None},
        model_layers={name: frozenset(one.layers) for name, one in models.items() if one.layers is not None},
        early=early,
    )
