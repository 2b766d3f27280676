"""Builds the scanner from the configuration. The list of layers is defined here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sidecar import __version__, limits, policy
from sidecar.actions.argument_rules import action_switches
from sidecar.config import Settings
from sidecar.detectors.judge import cache
from sidecar.detectors.judge.layer import LlmJudgeLayer
from sidecar.detectors.rules import selftest
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import ModelError, PolicyError
from sidecar.observability.dependencies import dependencies
from sidecar.observability.metrics import LAYER_FAILURES
from sidecar.policy import Policy, Rule
from sidecar.policy.switches import apply_switches
from sidecar.scan import cache as verdicts
from sidecar.scan import shadow
from sidecar.scan.cache import CachedLayer, ReportCache
from sidecar.scan.engine import ANY_SCORE, Engine, EngineConfig, ExceptionLookup, Stage
from sidecar.scan.exception_patterns import PatternExceptions
from sidecar.storage import Disagreements, Pins
from sidecar.types import Action, Dependency, Layer, LayerName
from sidecar.util import logs
from sidecar.util.bulkhead import Bulkhead

if TYPE_CHECKING:
    from sidecar.detectors.semantic.layer import SemanticLayer

SHADOW_CONCURRENCY = 4
JUDGE_RESULTS = verdicts.Codec("opinion", cache.memory_size, cache.dump, cache.load)
_log = logs.get("pipeline")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the scanners of profiles share with the general one: layers without their caches, the cache, the slots."""

    stages: tuple[Stage, ...]
    cache: ReportCache | None
    gate: Bulkhead

    def shared(self, name: LayerName) -> Stage | None:
        """The stage of this layer, if there is one."""
        return next((stage for stage in self.stages if stage.layer.name is name), None)


@dataclass(frozen=True, slots=True)
class Scanner:
    """The built scanner: its engine, the policy that it was built from, missing layers, and what it depends on.

    `policy` has the overrides of the settings `rules`, `source_policy` is the one of the files.
    """

    engine: Engine
    policy: Policy
    source_policy: Policy
    degraded: tuple[str, ...] = ()
    dependencies: tuple[tuple[str, Dependency], ...] = ()
    parts: Parts | None = None


@dataclass(frozen=True, slots=True)
class ServerContext:
    """Dependencies only a server has.

    `secret` keys the cached scan results (`sidecar.scan.cache`). Without it nothing is cached and every text is read to
    its end, so scores above the threshold are exact. `passed_rules`: rules whose self-tests a reload need not repeat.
    `pins`: the pinned tools of MCP servers.
    """

    secret: bytes
    exceptions: ExceptionLookup | None = None
    disagreements: Disagreements | None = None
    passed_rules: set[Rule] = field(default_factory=set)
    pins: Pins | None = None


@asynccontextmanager
async def open_scanner(
    settings: Settings, *, selftests: bool = True, secret: bytes | None = None, server: ServerContext | None = None
) -> AsyncIterator[Scanner]:
    """Load policies and layers, run the self-tests of the local layers, and close the layers at the end.

    The judge's questions are not tested: a start must not wait for, or pay, an external model. `secret` alone is short
    for `ServerContext(secret)`.

    Raises `PolicyError`, `ModelError` or `ConfigError`; nothing is left open then.
    """
    server = server or (ServerContext(secret) if secret is not None else None)
    source_policy = await asyncio.to_thread(policy.load, settings.policies)
    rules = apply_switches(source_policy, settings.rules)
    action_switches(settings.rules)  # an error at the start, also while actions are off
    async with AsyncExitStack() as stack:
        degraded: list[str] = []
        stages = await _stages(settings, rules, stack, degraded)
        if settings.layers.llm_judge.url is not None:
            stages.append(await open_judge(settings, rules, server, stack))
        if selftests:
            await run_selftests(source_policy, rules, [stage.layer for stage in stages], server)
        result_cache = await _open_cache(settings, server, stack)
        parts = Parts(
            tuple(stages), result_cache, limits.counted_bulkhead(settings.scan.concurrency, settings.scan.queue)
        )
        engine = assemble(settings, rules, stages, parts, server)
        if server is not None and server.disagreements is not None and settings.shadow.policies:
            shadow_engine = await _shadow_engine(settings, engine, result_cache, server)
            shadow_scanner = shadow.ShadowScanner(shadow_engine, settings.shadow, server.disagreements)
            await shadow_scanner.start()
            stack.push_async_callback(shadow_scanner.close)
            engine.observer, engine.shadow = shadow_scanner.observe, shadow_engine
        judges = (("judge", stage.layer) for stage in stages if stage.layer.name is LayerName.LLM_JUDGE)
        watched = dependencies(("redis", result_cache), *judges)
        yield Scanner(engine, rules, source_policy, tuple(degraded), watched, parts)


def assemble(
    settings: Settings, rules: Policy, stages: Sequence[Stage], parts: Parts, server: ServerContext | None
) -> Engine:
    """The engine of these stages, with the common cache and slots."""
    cached = [_cached(stage, parts.cache, server, rules) for stage in stages]
    engine_config = _engine_config(settings, rules, early=server is not None)
    return Engine(cached, engine_config, parts.gate, server.exceptions if server else None)


async def run_selftests(
    source_policy: Policy, rules: Policy, layers: Sequence[Layer], server: ServerContext | None
) -> None:
    """Run the rule self-tests; a command such as `check` tests all of them.

    A server skips the rules that passed before, and the patterns that come with the product: these were tested with it.
    """
    local = [layer for layer in layers if layer.name is not LayerName.LLM_JUDGE]
    passed = server.passed_rules if server else set[Rule]()
    if server:
        passed.update(rule for rule in source_policy.rules if rule.patterns and rule.id in source_policy.shipped)
    tested, tested_layers = await _as_written(source_policy, rules, local)
    if problems := await selftest.run_selftests(tested, tested_layers, passed):
        raise PolicyError("policies fail their own examples", problems)
    if problems := await selftest.canary(local):
        raise ModelError("; ".join(problems))


async def _as_written(source_policy: Policy, rules: Policy, layers: Sequence[Layer]) -> tuple[Policy, list[Layer]]:
    """The policy and layers to test: without the overrides of the settings `rules`, which must not fail a start.

    The examples of a `hidden_in` rule need other rules, so switching these off would fail it. A `similar_to` rule needs
    no other rule, and stays as overridden: a second model would have to be loaded for it.
    """
    if source_policy is rules:
        return source_policy, list(layers)
    pairs = zip(source_policy.rules, rules.rules, strict=True)
    tested = tuple(overridden if overridden.similar_to else rule for rule, overridden in pairs)
    policy_tested = source_policy.model_copy(update={"rules": tested})
    return policy_tested, [
        await asyncio.to_thread(RulesLayer, source_policy, unaided=layer.unaided)
        if isinstance(layer, RulesLayer)
        else layer
        for layer in layers
    ]


async def _open_cache(settings: Settings, server: ServerContext | None, stack: AsyncExitStack) -> ReportCache | None:
    if server is None or not settings.cache.entries:
        return None
    result_cache = await verdicts.open(settings.cache, server.secret, verdicts.REPORT_CODEC)
    stack.push_async_callback(result_cache.close)
    return result_cache


async def _shadow_engine(
    settings: Settings, engine: Engine, result_cache: ReportCache | None, server: ServerContext
) -> Engine:
    """An engine for the shadow policies; it shares the semantic layer and its cached results with the main one."""
    rules = await asyncio.to_thread(policy.load, settings.shadow.policies)
    unaided = all(stage.layer.name is not LayerName.SEMANTIC for stage in engine.stages)
    stages = [Stage(RulesLayer(rules, unaided=unaided), "skip")]
    await run_selftests(rules, rules, [stage.layer for stage in stages], server)
    stages = [_cached(stage, result_cache, server, rules) for stage in stages]
    stages += [replace(s, on_failure="skip") for s in engine.stages if s.layer.name is LayerName.SEMANTIC]
    gate = limits.counted_bulkhead(SHADOW_CONCURRENCY, shadow.MAX_RUNNING)
    return Engine(stages, _engine_config(settings, rules, early=True), gate, server.exceptions)


async def _stages(settings: Settings, rules: Policy, stack: AsyncExitStack, degraded: list[str]) -> list[Stage]:
    """The local layers in order. The semantic layer stops once the request is certain to be blocked."""
    layers, failure = settings.layers, settings.failure
    stages = []
    semantic = await open_semantic(settings, rules, stack, degraded) if layers.semantic.enabled else None
    if layers.rules.enabled:
        layer = await asyncio.to_thread(RulesLayer, rules, unaided=semantic is None)
        stages.append(Stage(layer, failure.rules, ANY_SCORE))
    if semantic is not None:
        stages.append(Stage(semantic, failure.semantic, skip_if_settled=True))
    return stages


async def open_judge(settings: Settings, rules: Policy, server: ServerContext | None, stack: AsyncExitStack) -> Stage:
    """The judge, called within its score band; a server caches its results beside the scan results."""
    judge, result_cache = settings.layers.llm_judge, None
    if server is not None and judge.cache:
        sized = settings.cache.model_copy(update={"entries": judge.cache})
        result_cache = await verdicts.open(sized, server.secret, JUDGE_RESULTS)
        stack.push_async_callback(result_cache.close)
    layer = LlmJudgeLayer(
        judge,
        rules_of(rules, "question"),
        threshold=settings.scan.threshold,
        cache=result_cache,
        secret=server.secret if server else None,
    )
    stack.push_async_callback(layer.close)
    decides = judge.mode == "decide"
    return Stage(layer, settings.failure.llm_judge, judge.between, replaces=True, decides=decides)


def _cached(stage: Stage, result_cache: ReportCache | None, server: ServerContext | None, rules: Policy) -> Stage:
    """The stage with a result cache, if its layer reports per segment; the key covers all that affects the result."""
    layer, code = stage.layer, f"{__version__} {rules.revision}"
    if result_cache is None or server is None:
        return stage
    if isinstance(layer, RulesLayer):
        code = f"{code} unaided" if layer.unaided else code
        cached = CachedLayer(layer, result_cache, server.secret, fingerprint=code, reads_system_prompt=True)
        return replace(stage, layer=cached)
    if layer.name is LayerName.SEMANTIC and (model := getattr(layer, "fingerprint", None)):
        fingerprint = f"{code} {model}"
        cached = CachedLayer(layer, result_cache, server.secret, fingerprint=fingerprint, reads_prior=True)
        return replace(stage, layer=cached)
    return stage


async def open_semantic(
    settings: Settings, rules: Policy, stack: AsyncExitStack, degraded: list[str]
) -> SemanticLayer | None:
    """The semantic layer; None, with an error in the log, if its model is damaged and `failure.semantic` is `skip`."""
    from sidecar.detectors.semantic.layer import SemanticLayer  # noqa: PLC0415 - 30 MB, loaded only if enabled

    try:
        layer = await asyncio.to_thread(SemanticLayer.load, settings.layers.semantic, rules_of(rules, "similar_to"))
    except ModelError as error:
        if settings.failure.semantic == "block":
            raise
        _log.error("layer_missing", layer="semantic", error=error)
        LAYER_FAILURES.labels("semantic", "missing").inc()
        degraded.append(f"semantic layer missing: {error}")
        return None
    stack.push_async_callback(layer.close)
    return layer


def rules_of(rules: Policy, kind: str) -> list[Rule]:
    """The rules of one layer in use; `kind`: `patterns`, `similar_to` or `question`."""
    return [rule for rule in rules.rules if getattr(rule, kind) and rule.status != "retired"]


def _engine_config(settings: Settings, rules: Policy, *, early: bool) -> EngineConfig:
    sources, models = settings.scan.sources.by_source, settings.models
    return EngineConfig(
        threshold=settings.scan.threshold,
        deadline=settings.scan.deadline,
        deadline_per_mb=settings.scan.deadline_per_mb,
        all_failed=Action(settings.failure.all),
        overload=Action(settings.failure.overload),
        too_long=Action(settings.failure.input.oversize),
        budget=Action(settings.failure.input.budget),
        revision=rules.revision,
        thresholds={
            source: override.threshold for source, override in sources.items() if override.threshold is not None
        },
        layers={source: frozenset(override.layers) for source, override in sources.items()},
        model_thresholds={
            name: override.threshold for name, override in models.items() if override.threshold is not None
        },
        model_layers={
            name: frozenset(override.layers) for name, override in models.items() if override.layers is not None
        },
        early=early,
        exceptions=PatternExceptions(settings.exceptions) if settings.exceptions else None,
    )
