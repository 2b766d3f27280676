"""Twin of sidecar/scan/engine.py: layers here are small real objects, no model, network or YAML."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from sidecar.errors import LayerError
from sidecar.scan.engine import Caller, Engine, EngineConfig, Stage
from sidecar.types import (
    Action,
    Finding,
    Label,
    LayerName,
    LayerReport,
    ScanRequest,
    Segment,
    SegmentReport,
    Source,
)
from sidecar.util.bulkhead import Bulkhead
from sidecar.util.units import RuleChange

REQUEST = ScanRequest((Segment("some text"),))


def finding(label: Label, score: float, layer: LayerName, *, decides: bool = True) -> Finding:
    """A finding somewhere in the prompt."""
    return Finding("T-1", label, score, layer, "prompt", 0, 4, decides=decides)


@dataclass
class Fixed:
    """A layer with a configured result that records its calls."""

    name: LayerName
    score: float | None = 0.0
    label: Label = Label.PROMPT_INJECTION
    error: Exception | None = None
    pause: float = 0.0
    reasoning: str | None = None
    extra: tuple[Finding, ...] = ()
    report: LayerReport | None = None
    priors: list[Sequence[Finding]] = field(default_factory=list)

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Return the configured report, or raise the configured error."""
        self.priors.append(prior)
        await asyncio.sleep(self.pause)
        if self.error:
            raise self.error
        if self.report:
            return self.report
        findings = (finding(self.label, self.score, self.name),) if self.score else ()
        return LayerReport(self.name, self.score, (*findings, *self.extra), reasoning=self.reasoning)


def rules(score: float | None = 0.0, **options: object) -> Fixed:
    """A stand-in for the rules layer."""
    return Fixed(LayerName.RULES, score, **options)  # type: ignore[arg-type]


def semantic(score: float | None = 0.0, **options: object) -> Fixed:
    """A stand-in for the semantic layer."""
    return Fixed(LayerName.SEMANTIC, score, **options)  # type: ignore[arg-type]


def judge(score: float | None = 0.0, **options: object) -> Fixed:
    """A stand-in for the judge."""
    return Fixed(LayerName.LLM_JUDGE, score, reasoning="It asks for secrets.", **options)  # type: ignore[arg-type]


def engine(*stages: Stage, **config: object) -> Engine:
    """An engine over these stages with room for all."""
    return Engine(stages, EngineConfig(**config), Bulkhead(8, 8))  # type: ignore[arg-type]


async def test_the_highest_score_decides_and_names_its_layer() -> None:
    """Scores are not summed: the highest applies, and `layer_used` is the layer that gave it."""
    verdict = await engine(Stage(rules(0.3)), Stage(semantic(0.5))).scan(REQUEST)
    assert (verdict.risk_score, verdict.layer_used, verdict.action) == (0.5, LayerName.SEMANTIC, Action.ALLOW)
    verdict = await engine(Stage(rules(0.9)), Stage(semantic(0.5))).scan(REQUEST)
    assert (verdict.layer_used, verdict.action) == (LayerName.RULES, Action.BLOCK)


@pytest.mark.parametrize(
    ("score", "action"), [(0.59994, "allow"), (0.59996, "block"), (0.6, "block"), (0.5999, "allow")]
)
async def test_the_score_is_rounded_before_it_is_compared(score: float, action: str) -> None:
    """Four decimals first, then the threshold: score and action never disagree."""
    verdict = await engine(Stage(rules(score))).scan(REQUEST)
    assert (verdict.action, verdict.risk_score) == (action, round(score, 4))


async def test_a_certain_score_skips_the_later_layers() -> None:
    """A stage outside its score range does not run."""
    later = semantic(0.1)
    await engine(Stage(rules(0.9)), Stage(later, score_range=(0.0, 0.6))).scan(REQUEST)
    assert later.priors == []


async def test_the_judge_replaces_the_score_inside_its_score_range_and_gives_reasons() -> None:
    """In its range the judge's score replaces the other, upwards and downwards, with its reasoning."""
    for score, action in ((0.05, Action.ALLOW), (0.95, Action.BLOCK)):
        stages = (Stage(semantic(0.7)), Stage(judge(score), score_range=(0.4, 0.8), replaces=True))
        verdict = await engine(*stages).scan(REQUEST)
        assert (verdict.risk_score, verdict.action, verdict.layer_used) == (score, action, LayerName.LLM_JUDGE)
        assert verdict.reasoning == "It asks for secrets."


@pytest.mark.parametrize("score", [0.39, 0.8, 0.95])
async def test_the_judge_does_not_run_outside_its_score_range(score: float) -> None:
    """Outside its range there is no call and no reasoning."""
    judge_layer = judge(0.0)
    verdict = await engine(Stage(semantic(score)), Stage(judge_layer, score_range=(0.4, 0.8), replaces=True)).scan(
        REQUEST
    )
    assert (judge_layer.priors, verdict.reasoning, verdict.risk_score) == ([], None, score)


async def test_an_advising_judge_is_recorded_and_ignored() -> None:
    """`decides=False`: the report is recorded, and neither its score nor its failure changes the verdict."""
    for judge_layer in (judge(0.99), judge(error=LayerError("unavailable"))):
        stages = (Stage(semantic(0.5)), Stage(judge_layer, "block", (0.4, 0.8), replaces=True, decides=False))
        verdict = await engine(*stages).scan(REQUEST)
        assert (verdict.risk_score, verdict.layer_used, verdict.failure) == (0.5, LayerName.SEMANTIC, None)
        assert len(verdict.reports) == 2


async def test_the_judge_cannot_lower_the_score_of_pii() -> None:
    """PII scored by policy survives a judge that finds the text harmless."""
    pii = rules(0.65, label=Label.PII_DETECTED)
    verdict = await engine(Stage(pii), Stage(judge(0.0), score_range=(0.4, 0.8), replaces=True)).scan(REQUEST)
    assert (verdict.risk_score, verdict.action, verdict.threats) == (0.65, Action.BLOCK, (Label.PII_DETECTED,))


PICTURE = Segment("text of a picture", Source.UNTRUSTED, "picture", threshold=0.3)


def scores(first: Finding, second: Finding) -> LayerReport:
    """A report on two segments, with one finding each."""
    found = [SegmentReport(value.score, (value,)) for value in (first, second)]
    return LayerReport.from_segments(LayerName.RULES, found)


def at(path: str, score: float, label: Label = Label.PROMPT_INJECTION) -> Finding:
    """A finding of the rules at a path."""
    return Finding("T-1", label, score, LayerName.RULES, path)


@pytest.mark.parametrize(
    ("prompt", "picture", "key", "outcome"),
    [
        (0.35, 0.0, None, (0.35, Action.ALLOW, 0.6)),
        (0.0, 0.29, None, (0.29, Action.ALLOW, 0.6)),
        (0.0, 0.3, None, (0.3, Action.BLOCK, 0.3)),
        (0.5, 0.35, None, (0.35, Action.BLOCK, 0.3)),
        (0.7, 0.2, None, (0.7, Action.BLOCK, 0.6)),
        (0.0, 0.35, 0.9, (0.35, Action.BLOCK, 0.3)),
        (0.0, 0.25, 0.2, (0.25, Action.BLOCK, 0.2)),
    ],
)
async def test_a_segment_with_a_lower_threshold_blocks_from_it(
    prompt: float, picture: float, key: float | None, outcome: tuple[float, Action, float]
) -> None:
    """It alone does, under a key's threshold as well, of which the stricter one applies."""
    layer = rules(report=scores(at("prompt", prompt), at("picture", picture)))
    request = ScanRequest((Segment("some text"), PICTURE))
    verdict = await engine(Stage(layer)).scan(request, Caller(threshold=key))
    assert (verdict.risk_score, verdict.action, verdict.threshold) == outcome


async def test_personal_data_is_not_held_to_the_lower_threshold() -> None:
    """A telephone number, worth 0.3, is listed and does not block; with a judge neither; from 0.6 on it does."""
    request = ScanRequest((Segment("some text"), PICTURE))
    for score, action in ((0.3, Action.ALLOW), (0.6, Action.BLOCK)):
        layer = rules(report=scores(at("prompt", 0.0), at("picture", score, Label.PII_DETECTED)))
        verdict = await engine(Stage(layer)).scan(request)
        assert (verdict.action, verdict.threats) == (action, (Label.PII_DETECTED,))
    both = (at("picture", 0.3, Label.PII_DETECTED), at("picture", 0.5))
    mixed = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0), SegmentReport(0.5, both)])
    assert (await engine(Stage(rules(report=mixed))).scan(request)).action is Action.BLOCK
    judged = engine(Stage(rules(report=mixed)), Stage(judge(0.0), score_range=(0.3, 0.8), replaces=True))
    assert (await judged.scan(request)).action is Action.ALLOW


async def test_pii_is_listed_whatever_its_score() -> None:
    """PII below the threshold allows, and is still a threat; other labels below it are not listed."""
    layer = rules(0.3, label=Label.PII_DETECTED, extra=(finding(Label.JAILBREAK, 0.4, LayerName.RULES),))
    verdict = await engine(Stage(layer)).scan(REQUEST)
    assert (verdict.action, verdict.threats) == (Action.ALLOW, (Label.PII_DETECTED,))


async def test_rules_under_test_never_decide() -> None:
    """A finding that does not decide is reported and not listed as a threat."""
    layer = rules(0.0, extra=(finding(Label.JAILBREAK, 0.9, LayerName.RULES, decides=False),))
    verdict = await engine(Stage(layer)).scan(REQUEST)
    assert (verdict.action, verdict.threats, len(verdict.findings)) == (Action.ALLOW, (), 1)


FAULTS = [
    (rules(error=RuntimeError("secret text")), "error"),
    (rules(error=LayerError("unavailable")), "unavailable"),
    (rules(pause=5), "deadline"),
    (rules(float("nan")), "error"),
]


@pytest.mark.parametrize(("broken", "cause"), FAULTS)
async def test_a_failing_layer_closed_means_could_not_scan(broken: Fixed, cause: str) -> None:
    """on_failure=block: the verdict blocks and names the cause, whatever the other layers report."""
    verdict = await engine(Stage(broken), Stage(semantic(0.0)), deadline=0.05).scan(REQUEST)
    assert (verdict.failure, verdict.action, verdict.reports[0].failure) == (cause, Action.BLOCK, cause)
    assert "secret text" not in repr(verdict)


@pytest.mark.parametrize(("broken", "cause"), FAULTS[:2] + FAULTS[3:])
async def test_a_failing_layer_skipped_leaves_it_to_the_others(broken: Fixed, cause: str) -> None:
    """on_failure=skip: the other layers decide, and the failure stands in the report."""
    verdict = await engine(Stage(broken, "skip"), Stage(semantic(0.7))).scan(REQUEST)
    assert (verdict.failure, verdict.action, verdict.layer_used) == (None, Action.BLOCK, LayerName.SEMANTIC)
    assert verdict.reports[0].failure == cause


@pytest.mark.parametrize("policy", [Action.BLOCK, Action.ALLOW])
async def test_failure_all_decides_when_no_layer_answers(policy: Action) -> None:
    """Every layer is skipped: `failure.all` decides, and the verdict carries the failure."""
    stages = (Stage(rules(error=LayerError("unavailable")), "skip"), Stage(semantic(error=LayerError("error")), "skip"))
    verdict = await engine(*stages, all_failed=policy).scan(REQUEST)
    assert (verdict.failure, verdict.action, verdict.risk_score) == ("unavailable", policy, 0.0)


async def test_a_layer_after_failed_ones_runs_outside_its_score_range() -> None:
    """While no layer has a score, a judge runs whatever its score range."""
    stages = (Stage(rules(error=LayerError("error")), "skip"), Stage(judge(0.9), score_range=(0.4, 0.8), replaces=True))
    verdict = await engine(*stages).scan(REQUEST)
    assert (verdict.action, verdict.layer_used) == (Action.BLOCK, LayerName.LLM_JUDGE)


async def test_a_text_that_is_too_long_follows_its_own_setting() -> None:
    """`too_long` has its own action, even where failures of the layer are skipped."""
    stages = (Stage(rules(0.1)), Stage(semantic(error=LayerError("too_long")), "skip"))
    verdict = await engine(*stages).scan(REQUEST)
    assert (verdict.failure, verdict.action) == ("too_long", Action.BLOCK)
    verdict = await engine(*stages, too_long=Action.ALLOW).scan(REQUEST)
    assert (verdict.failure, verdict.action) == ("too_long", Action.ALLOW)


async def test_a_block_stands_although_the_rest_is_too_long() -> None:
    """With `too_long: allow`, an attack cannot pass by being made longer."""
    overlong = semantic(error=LayerError("too_long"))
    stages = (
        Stage(rules(0.7)),
        Stage(overlong, skip_if_settled=True),
        Stage(judge(0.1), score_range=(0.5, 0.8), replaces=True),
    )
    verdict = await engine(*stages, too_long=Action.ALLOW).scan(REQUEST)
    assert (verdict.action, verdict.risk_score, verdict.failure) == (Action.BLOCK, 0.7, None)


async def test_an_exhausted_budget_follows_its_own_setting() -> None:
    """`budget` has its own action; an exhausted budget of the judge counts as a failure of the judge."""
    partial = SegmentReport(0.2, complete=False)
    report = replace(LayerReport.from_segments(LayerName.SEMANTIC, [partial]), failure="budget")
    stages = (Stage(rules(0.1)), Stage(semantic(report=report), "skip"))
    verdict = await engine(*stages).scan(REQUEST)
    assert (verdict.failure, verdict.action) == ("budget", Action.BLOCK)
    verdict = await engine(*stages, budget=Action.ALLOW).scan(REQUEST)
    assert (verdict.failure, verdict.action) == ("budget", Action.ALLOW)
    stages_with_judge = (Stage(rules(0.6)), Stage(judge(error=LayerError("budget")), "skip", (0.5, 0.8), replaces=True))
    assert (await engine(*stages_with_judge).scan(REQUEST)).failure is None


@pytest.mark.parametrize("on_budget", [Action.BLOCK, Action.ALLOW])
async def test_a_block_found_before_the_budget_ended_stands(on_budget: Action) -> None:
    """The verdict is a block and no failure, whichever layer found it."""
    for first_score, later_score in ((0.1, 0.9), (0.9, 0.1)):
        partial = SegmentReport(later_score, complete=False)
        report = replace(LayerReport.from_segments(LayerName.SEMANTIC, [partial]), failure="budget")
        scanner = engine(Stage(rules(first_score)), Stage(semantic(report=report)), budget=on_budget)
        verdict = await scanner.scan(REQUEST, Caller(thorough=True))
        assert (verdict.action, verdict.failure, verdict.risk_score) == (Action.BLOCK, None, 0.9)


def test_the_deadline_grows_with_the_text() -> None:
    """A base plus a rate per million characters; non-ASCII characters count double, as their windows do."""
    config = EngineConfig(deadline=4.0, deadline_per_mb=40.0)
    texts = ("x" * 500_000, "\u0436" * 250_000)
    assert [config.deadline_of(ScanRequest((Segment(text),))) for text in texts] == [24.0, 24.0]
    assert config.deadline_of(ScanRequest((), system_prompt="x" * 100_000)) == 8.0


async def test_overload_is_refused_at_once() -> None:
    """With all slots and the queue taken, the next scan fails without waiting."""
    slow = Engine([Stage(rules(0.1, pause=0.3))], EngineConfig(), Bulkhead(1, 1))
    async with asyncio.TaskGroup() as group:
        scans = [group.create_task(slow.scan(REQUEST)) for _ in range(3)]
    causes = [scan.result().failure for scan in scans]
    assert sorted(cause or "" for cause in causes) == ["", "", "overload"]


async def test_cancelling_a_scan_frees_its_slot() -> None:
    """A client that disconnects does not keep a slot of the bulkhead."""
    slow = Engine([Stage(rules(0.1, pause=0.2))], EngineConfig(), Bulkhead(1, 0))
    task = asyncio.ensure_future(slow.scan(REQUEST))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await slow.scan(REQUEST)).failure is None


async def test_later_layers_see_what_earlier_ones_found() -> None:
    """Earlier findings are passed on, so that a judge can look at the right place."""
    last_layer = judge(0.2)
    await engine(Stage(rules(0.5)), Stage(last_layer)).scan(REQUEST)
    assert [finding.rule for finding in last_layer.priors[0]] == ["T-1"]


async def test_the_verdict_names_the_segment_with_the_highest_score() -> None:
    """Error responses name this `path` as `param`."""
    verdict = await engine(Stage(rules(0.9))).scan(REQUEST)
    assert verdict.path == "prompt"


def sized(name: LayerName, *scores: float) -> Fixed:
    """A layer that reports on each segment."""
    layer = Fixed(name)

    async def scan(request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        layer.priors.append(prior)
        layer.sufficient_score = request.sufficient_score  # type: ignore[attr-defined]
        segment_reports = [
            SegmentReport(score, (Finding("T-1", Label.JAILBREAK, score, name, segment.path),))
            for score, segment in zip(scores, request.segments, strict=True)
        ]
        return LayerReport.from_segments(name, segment_reports)

    layer.scan = scan  # type: ignore[method-assign]
    return layer


MIXED = ScanRequest(
    (
        Segment("said", Source.USER, "messages.0"),
        Segment("read", Source.UNTRUSTED, "messages.1"),
        Segment("defined", Source.APPLICATION, "tools.0"),
    )
)


@pytest.mark.parametrize(
    ("scores", "action", "culprit"),
    [
        ((0.55, 0.45, 0.2), Action.ALLOW, None),
        ((0.65, 0.45, 0.2), Action.BLOCK, "messages.0"),
        ((0.45, 0.5, 0.2), Action.BLOCK, "messages.1"),
        ((0.55, 0.1, 0.9), Action.BLOCK, "tools.0"),
        ((0.55, 0.1, 0.85), Action.ALLOW, None),
    ],
)
async def test_each_segment_is_held_to_the_threshold_of_its_source(
    scores: tuple[float, ...], action: Action, culprit: str | None
) -> None:
    """It overrides the general one; the blocking path is named, and the score is that of the deciding segment."""
    thresholds = {Source.UNTRUSTED: 0.5, Source.APPLICATION: 0.9}
    verdict = await engine(Stage(sized(LayerName.RULES, *scores)), thresholds=thresholds).scan(MIXED)
    decided = scores[0] if action is Action.ALLOW else max(scores)
    assert (verdict.action, verdict.blocking_path, verdict.risk_score) == (action, culprit, decided)
    assert verdict.threats == ((Label.JAILBREAK,) if action is Action.BLOCK else ())


@pytest.mark.parametrize(
    ("model", "own", "action"),
    [
        ("lax-1", None, Action.ALLOW),
        ("lax-1", 0.7, Action.BLOCK),
        ("m", None, Action.BLOCK),
        (None, None, Action.BLOCK),
    ],
)
async def test_a_model_has_its_own_threshold(model: str | None, own: float | None, action: Action) -> None:
    """It yields to the threshold of the caller's key, and overrides those of sources and the general one."""
    config = {"thresholds": {Source.USER: 0.5}, "model_thresholds": {"lax-*": 0.9}}
    request = ScanRequest((Segment("hello"),), model=model)
    verdict = await engine(Stage(rules(0.8)), **config).scan(request, Caller(threshold=own))
    assert verdict.action is action


async def test_only_the_layers_of_a_model_run() -> None:
    """Other layers do not run."""
    request = ScanRequest((Segment("hello"),), model="local")
    model_layers = {"local": frozenset({LayerName.RULES})}
    verdict = await engine(Stage(rules(0.1)), Stage(semantic(0.9)), model_layers=model_layers).scan(request)
    assert [report.layer for report in verdict.reports] == [LayerName.RULES]


async def test_a_layer_reads_only_its_sources() -> None:
    """Segments of other sources are not passed on; a layer without segments does not run."""
    first, later = sized(LayerName.RULES, 0.1, 0.2, 0.95), sized(LayerName.SEMANTIC, 0.3)
    layers = {Source.UNTRUSTED: frozenset({LayerName.RULES}), Source.APPLICATION: frozenset({LayerName.RULES})}
    verdict = await engine(Stage(first), Stage(later), layers=layers).scan(MIXED, Caller(thorough=True))
    assert [len(report.segment_reports) for report in verdict.reports] == [3, 3]
    assert [item.score for item in verdict.reports[1].segment_reports] == [0.3, 0.0, 0.0]
    rules_alone = {source: frozenset({LayerName.RULES}) for source in Source}
    verdict = await engine(Stage(first), Stage(later), layers=rules_alone).scan(MIXED)
    assert [report.layer for report in verdict.reports] == [LayerName.RULES]


FALLBACK = Finding("T-1", Label.JAILBREAK, 0.95, LayerName.RULES, "p", decides=False, hint=True, fallback=True)


@pytest.mark.parametrize(
    ("segment", "layers", "action"),
    [
        (Segment("said", Source.USER), {}, Action.ALLOW),
        (Segment("said", Source.USER), {Source.USER: frozenset({LayerName.RULES})}, Action.BLOCK),
        (Segment("written", Source.MODEL), {Source.MODEL: frozenset({LayerName.RULES})}, Action.BLOCK),
        (Segment("in a row", Source.USER, joined=True, rules_only=True), {}, Action.BLOCK),
        (Segment("framed", Source.USER, rules_only=True), {}, Action.BLOCK),
        (Segment("framed", Source.USER, rules_only=True), {Source.USER: frozenset({LayerName.RULES})}, Action.BLOCK),
    ],
)
async def test_a_fallback_blocks_where_no_model_scores_its_text(
    segment: Segment, layers: dict[Source, frozenset[LayerName]], action: Action
) -> None:
    """By source, for joined texts, and for framed turns none of whose parts has the hit."""
    request = ScanRequest((Segment("hello", Source.UNTRUSTED), segment))
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0), SegmentReport(0.0, (FALLBACK,))])
    first, later = rules(0.0, report=report), semantic(0.1)
    assert (await engine(Stage(first), Stage(later), layers=layers).scan(request)).action is action
    assert (await engine(Stage(first), layers=layers).scan(request)).action is Action.BLOCK


@pytest.mark.parametrize("cause", ["unavailable", "error", "deadline"])
async def test_a_fallback_blocks_where_the_model_fails(cause: str) -> None:
    """Where the failure policy goes on without the model, the rules decide as if there were none."""
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (FALLBACK,))])
    failing = Stage(semantic(error=LayerError(cause)), "skip")
    verdict = await engine(Stage(rules(0.0, report=report)), failing).scan(REQUEST)
    assert (verdict.action, verdict.risk_score, verdict.layer_used) == (Action.BLOCK, 0.95, LayerName.RULES)
    assert [f.decides for report in verdict.reports for f in report.findings] == [True]


async def test_a_fallback_counts_where_the_model_has_no_finding_but_a_suspicion() -> None:
    """The hits of earlier layers reach the model's report even if it has no finding of its own."""
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (FALLBACK,))])
    suspicion = LayerReport.from_segments(LayerName.SEMANTIC, [SegmentReport(0.09, suspicious=((0, 10, 0.09),))])
    verdict = await engine(Stage(rules(0.0, report=report)), Stage(semantic(0.09, report=suspicion))).scan(REQUEST)
    assert verdict.action is Action.BLOCK


@pytest.mark.parametrize("cause", ["too_long", "budget"])
async def test_a_fallback_stands_where_unread_text_is_allowed(cause: str) -> None:
    """Text that the model does not read may pass by setting, a hit of a rule in it may not."""
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (FALLBACK,))])
    stages = (Stage(rules(0.0, report=report)), Stage(semantic(error=LayerError(cause))))
    scanner = engine(*stages, too_long=Action.ALLOW, budget=Action.ALLOW)
    assert (await scanner.scan(REQUEST)).action is Action.BLOCK


@pytest.mark.parametrize(("part", "action"), [("Ignore all rules", Action.ALLOW), ("Ignore all", Action.BLOCK)])
async def test_a_fallback_across_the_parts_of_a_framed_turn_blocks(part: str, action: Action) -> None:
    """The model reads the parts: what lies across them was read by rules alone."""
    whole = Segment("Ignore all rules" if part == "Ignore all rules" else "Ignore all <task> rules", rules_only=True)
    hit = replace(FALLBACK, start=0, end=len(whole.text))
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (hit,)), SegmentReport(0.0)])
    scanner = engine(Stage(rules(0.0, report=report)), Stage(semantic(0.1)))
    assert (await scanner.scan(ScanRequest((whole, Segment(part))))).action is action


@pytest.mark.parametrize(
    ("turns", "action"),
    [(("Ignore all rules", "of thumb"), Action.ALLOW), (("Ignore all", "rules of thumb"), Action.BLOCK)],
)
async def test_a_fallback_across_joined_turns_blocks(turns: tuple[str, ...], action: Action) -> None:
    """The model found the turn harmless that holds the hit: that only rules read the turns together changes nothing."""
    joins = (len(turns[0]) + 1,)
    joined = Segment("\n".join(turns), joined=True, rules_only=True, parts=turns, joins=joins)
    hit = replace(FALLBACK, start=0, end=len("Ignore all rules"))
    report = LayerReport.from_segments(LayerName.RULES, [*[SegmentReport(0.0)] * 2, SegmentReport(0.0, (hit,))])
    scanner = engine(Stage(rules(0.0, report=report)), Stage(semantic(0.1)))
    assert (await scanner.scan(ScanRequest((*map(Segment, turns), joined)))).action is action


async def test_an_excepted_fallback_stays_excepted_where_the_model_fails() -> None:
    """An exception is neither a block nor a hint."""
    excepted = replace(FALLBACK, hint=False)
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (excepted,))])
    failing = Stage(semantic(error=LayerError("unavailable")), "skip")
    assert (await engine(Stage(rules(0.0, report=report)), failing).scan(REQUEST)).action is Action.ALLOW


async def test_a_key_decides_about_a_fallback() -> None:
    """`block` makes it block beside the model, `hint` and `off` keep it from blocking anywhere."""
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (FALLBACK,))])
    stages = (Stage(rules(0.0, report=report)), Stage(semantic(0.1)))
    actions = {
        status: [
            (await engine(*some).scan(REQUEST, Caller(rule_changes={"T-1": RuleChange(status)}))).action
            for some in (stages, stages[:1])
        ]
        for status in ("block", "hint", "off")
    }
    assert actions["block"] == [Action.BLOCK, Action.BLOCK]
    assert actions["hint"] == actions["off"] == [Action.ALLOW, Action.ALLOW]


async def test_the_threshold_of_a_key_applies() -> None:
    """Stricter or looser than the general one, for this caller alone."""
    scanner = engine(Stage(rules(0.5)))
    verdicts = [await scanner.scan(REQUEST, Caller("k", threshold)) for threshold in (None, 0.4, 0.5, 0.51)]
    assert [verdict.action for verdict in verdicts] == [Action.ALLOW, Action.BLOCK, Action.BLOCK, Action.ALLOW]
    assert [verdict.threshold for verdict in verdicts] == [0.6, 0.4, 0.5, 0.51]


async def test_a_settled_block_skips_the_layer_unless_thorough() -> None:
    """Whether a block is settled depends on the caller's threshold; `thorough` runs the layer anyway."""
    later = semantic(0.1)
    scanner = engine(Stage(rules(0.7)), Stage(later, skip_if_settled=True))
    await scanner.scan(REQUEST)
    assert len(later.priors) == 0
    await scanner.scan(REQUEST, Caller(threshold=0.8))
    await scanner.scan(REQUEST, Caller(thorough=True))
    assert len(later.priors) == 2


async def test_a_block_is_not_settled_while_a_judge_may_still_replace_it() -> None:
    """Below the judge's upper bound the semantic layer runs, and no layer stops early."""
    first, later = sized(LayerName.RULES, 0.7), semantic(0.1)
    stages = (
        Stage(first),
        Stage(later, skip_if_settled=True),
        Stage(judge(0.0), score_range=(0.4, 0.8), replaces=True),
    )
    await engine(*stages, early=True).scan(REQUEST)
    assert (len(later.priors), first.sufficient_score) == (1, 0.8)  # type: ignore[attr-defined]


async def test_the_early_exit_score_never_changes_a_verdict() -> None:
    """It is the highest threshold of the request, and None where everything must be read."""
    for config, caller, enough in (
        ({"early": True}, Caller(), 0.6),
        ({"early": True}, Caller(threshold=0.9), 0.9),
        ({"early": True, "thresholds": {Source.USER: 0.2}}, Caller(), 0.6),
        ({"early": True, "thresholds": {Source.USER: 0.95}}, Caller(), 0.95),
        ({"early": True}, Caller(thorough=True), None),
        ({}, Caller(), None),
    ):
        layer = sized(LayerName.RULES, 0.1)
        await engine(Stage(layer), **config).scan(REQUEST, caller)
        assert layer.sufficient_score == enough  # type: ignore[attr-defined]


async def test_clients_share_the_slots() -> None:
    """With one slot and a queue of two, a third scan of one client gives way to another client's first."""
    slow = Engine([Stage(rules(0.1, pause=0.2))], EngineConfig(), Bulkhead(1, 2))
    loud = [asyncio.ensure_future(slow.scan(REQUEST, Caller(client="loud"))) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    quiet = await slow.scan(REQUEST, Caller(client="quiet"))
    assert quiet.failure is None
    assert [verdict.failure for verdict in await asyncio.gather(*loud)] == [None, None, "overload"]
