"""Twin of sidecar/scan/engine.py: layers here are small real objects, no model, network or YAML."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from sidecar.errors import LayerError
from sidecar.scan.engine import Caller, Engine, Stage, Terms
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

REQUEST = ScanRequest((Segment("some text"),))


def finding(label: Label, score: float, layer: LayerName, *, decides: bool = True) -> Finding:
    """A finding somewhere in the prompt."""
    return Finding("T-1", label, score, layer, "prompt", 0, 4, decides=decides)


@dataclass
class Fixed:
    """A layer that answers what it is told to, and remembers how often it was asked."""

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
        """Answer as told."""
        self.priors.append(prior)
        await asyncio.sleep(self.pause)
        if self.error:
            raise self.error
        if self.report:
            return self.report
        found = (finding(self.label, self.score, self.name),) if self.score else ()
        return LayerReport(self.name, self.score, (*found, *self.extra), reasoning=self.reasoning)


def rules(score: float | None = 0.0, **options: object) -> Fixed:
    """A stand-in for the rules layer."""
    return Fixed(LayerName.RULES, score, **options)  # type: ignore[arg-type]


def semantic(score: float | None = 0.0, **options: object) -> Fixed:
    """A stand-in for the semantic layer."""
    return Fixed(LayerName.SEMANTIC, score, **options)  # type: ignore[arg-type]


def judge(score: float | None = 0.0, **options: object) -> Fixed:
    """A stand-in for the judge."""
    return Fixed(LayerName.LLM_JUDGE, score, reasoning="It asks for secrets.", **options)  # type: ignore[arg-type]


def engine(*stages: Stage, **terms: object) -> Engine:
    """An engine over these stages with room for all."""
    return Engine(stages, Terms(**terms), Bulkhead(8, 8))  # type: ignore[arg-type]


async def test_the_highest_score_decides_and_names_its_layer() -> None:
    """Scores are not summed: the highest stands, and `layer_used` is who gave it."""
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


async def test_a_certain_score_spares_the_later_layers() -> None:
    """A stage outside its band is not asked at all."""
    later = semantic(0.1)
    await engine(Stage(rules(0.9)), Stage(later, between=(0.0, 0.6))).scan(REQUEST)
    assert later.priors == []


async def test_the_judge_replaces_the_score_inside_its_band_and_gives_reasons() -> None:
    """In the band the judge's score stands, upwards and downwards, with its reasoning."""
    for given, action in ((0.05, Action.ALLOW), (0.95, Action.BLOCK)):
        stages = (Stage(semantic(0.7)), Stage(judge(given), between=(0.4, 0.8), replaces=True))
        verdict = await engine(*stages).scan(REQUEST)
        assert (verdict.risk_score, verdict.action, verdict.layer_used) == (given, action, LayerName.LLM_JUDGE)
        assert verdict.reasoning == "It asks for secrets."


@pytest.mark.parametrize("score", [0.39, 0.8, 0.95])
async def test_the_judge_is_not_asked_outside_its_band(score: float) -> None:
    """Outside the band there is no call, and no reasoning."""
    asked = judge(0.0)
    verdict = await engine(Stage(semantic(score)), Stage(asked, between=(0.4, 0.8), replaces=True)).scan(REQUEST)
    assert (asked.priors, verdict.reasoning, verdict.risk_score) == ([], None, score)


async def test_an_advising_judge_is_recorded_and_ignored() -> None:
    """`decides=False`: the opinion is in the reports, the verdict is not touched, not even by its failure."""
    for asked in (judge(0.99), judge(error=LayerError("unavailable"))):
        stages = (Stage(semantic(0.5)), Stage(asked, "block", (0.4, 0.8), replaces=True, decides=False))
        verdict = await engine(*stages).scan(REQUEST)
        assert (verdict.risk_score, verdict.layer_used, verdict.failure) == (0.5, LayerName.SEMANTIC, None)
        assert len(verdict.reports) == 2


async def test_the_judge_cannot_lower_what_pii_is_worth() -> None:
    """PII scored by policy survives a judge that finds the text harmless."""
    pii = rules(0.65, label=Label.PII_DETECTED)
    verdict = await engine(Stage(pii), Stage(judge(0.0), between=(0.4, 0.8), replaces=True)).scan(REQUEST)
    assert (verdict.risk_score, verdict.action, verdict.threats) == (0.65, Action.BLOCK, (Label.PII_DETECTED,))


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
    """on_failure=block: the verdict is a refusal that names the cause, whatever other layers would say."""
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
async def test_with_no_answer_at_all_the_last_word_is_failure_all(policy: Action) -> None:
    """Every layer skipped: `failure.all` decides, and the verdict says that nothing was scanned."""
    stages = (Stage(rules(error=LayerError("unavailable")), "skip"), Stage(semantic(error=LayerError("error")), "skip"))
    verdict = await engine(*stages, all_failed=policy).scan(REQUEST)
    assert (verdict.failure, verdict.action, verdict.risk_score) == ("unavailable", policy, 0.0)


async def test_a_layer_behind_silent_ones_is_asked_outside_its_band() -> None:
    """While nobody has answered, a judge is asked whatever its band."""
    stages = (Stage(rules(error=LayerError("error")), "skip"), Stage(judge(0.9), between=(0.4, 0.8), replaces=True))
    verdict = await engine(*stages).scan(REQUEST)
    assert (verdict.action, verdict.layer_used) == (Action.BLOCK, LayerName.LLM_JUDGE)


async def test_a_text_that_is_too_long_is_the_clients_doing() -> None:
    """`too_long` follows its own line, even where the layer itself may be skipped."""
    stages = (Stage(rules(0.1)), Stage(semantic(error=LayerError("too_long")), "skip"))
    verdict = await engine(*stages).scan(REQUEST)
    assert (verdict.failure, verdict.action) == ("too_long", Action.BLOCK)
    verdict = await engine(*stages, too_long=Action.ALLOW).scan(REQUEST)
    assert (verdict.failure, verdict.action) == ("too_long", Action.ALLOW)


async def test_what_blocks_is_not_let_up_because_the_rest_is_too_long() -> None:
    """Where `too_long` opens, somebody could make a text that blocks pass by making it longer."""
    long = semantic(error=LayerError("too_long"))
    stages = (Stage(rules(0.7)), Stage(long, until_settled=True), Stage(judge(0.1), between=(0.5, 0.8), replaces=True))
    verdict = await engine(*stages, too_long=Action.ALLOW).scan(REQUEST)
    assert (verdict.action, verdict.risk_score, verdict.failure) == (Action.BLOCK, 0.7, None)


async def test_what_is_left_over_when_a_budget_ends_follows_its_own_line() -> None:
    """`budget` is the client's doing, too; a judge whose budget is spent is another matter."""
    half = SegmentReport(0.2, complete=False)
    report = replace(LayerReport.from_segments(LayerName.SEMANTIC, [half]), failure="budget")
    stages = (Stage(rules(0.1)), Stage(semantic(report=report), "skip"))
    verdict = await engine(*stages).scan(REQUEST)
    assert (verdict.failure, verdict.action) == ("budget", Action.BLOCK)
    verdict = await engine(*stages, budget=Action.ALLOW).scan(REQUEST)
    assert (verdict.failure, verdict.action) == ("budget", Action.ALLOW)
    spent = (Stage(rules(0.6)), Stage(judge(error=LayerError("budget")), "skip", (0.5, 0.8), replaces=True))
    assert (await engine(*spent).scan(REQUEST)).failure is None


@pytest.mark.parametrize("opens", [Action.BLOCK, Action.ALLOW])
async def test_what_was_read_before_a_budget_ended_still_blocks(opens: Action) -> None:
    """A block is no failure, whichever layer has found it."""
    for before, found in ((0.1, 0.9), (0.9, 0.1)):
        half = SegmentReport(found, complete=False)
        report = replace(LayerReport.from_segments(LayerName.SEMANTIC, [half]), failure="budget")
        made = engine(Stage(rules(before)), Stage(semantic(report=report)), budget=opens)
        verdict = await made.scan(REQUEST, Caller(thorough=True))
        assert (verdict.action, verdict.failure, verdict.risk_score) == (Action.BLOCK, None, 0.9)


def test_the_deadline_grows_with_the_text() -> None:
    """A base, and so much for each million characters; other letters than ASCII count double, as their windows do."""
    terms = Terms(deadline=4.0, deadline_per_mb=40.0)
    texts = ("x" * 500_000, "\u0436" * 250_000)
    assert [terms.deadline_of(ScanRequest((Segment(text),))) for text in texts] == [24.0, 24.0]
    assert terms.deadline_of(ScanRequest((), system_prompt="x" * 100_000)) == 8.0


async def test_overload_is_refused_at_once() -> None:
    """With all places and the queue taken, the next scan fails without waiting."""
    slow = Engine([Stage(rules(0.1, pause=0.3))], Terms(), Bulkhead(1, 1))
    async with asyncio.TaskGroup() as group:
        scans = [group.create_task(slow.scan(REQUEST)) for _ in range(3)]
    causes = [scan.result().failure for scan in scans]
    assert sorted(cause or "" for cause in causes) == ["", "", "overload"]


async def test_cancelling_a_scan_frees_its_place() -> None:
    """A client that leaves does not keep a place in the gate."""
    slow = Engine([Stage(rules(0.1, pause=0.2))], Terms(), Bulkhead(1, 0))
    task = asyncio.ensure_future(slow.scan(REQUEST))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await slow.scan(REQUEST)).failure is None


async def test_later_layers_see_what_earlier_ones_found() -> None:
    """The findings so far are handed on, so that a judge can look at the right place."""
    last = judge(0.2)
    await engine(Stage(rules(0.5)), Stage(last)).scan(REQUEST)
    assert [found.rule for found in last.priors[0]] == ["T-1"]


async def test_the_verdict_names_the_segment_that_weighs_most() -> None:
    """`path` is what an error answer names as `param`."""
    verdict = await engine(Stage(rules(0.9))).scan(REQUEST)
    assert verdict.path == "prompt"


def sized(name: LayerName, *scores: float) -> Fixed:
    """A layer that reports on each segment."""
    made = Fixed(name)

    async def scan(request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        made.priors.append(prior)
        made.sufficient_score = request.sufficient_score  # type: ignore[attr-defined]
        each = [
            SegmentReport(score, (Finding("T-1", Label.JAILBREAK, score, name, segment.path),))
            for score, segment in zip(scores, request.segments, strict=True)
        ]
        return LayerReport.from_segments(name, each)

    made.scan = scan  # type: ignore[method-assign]
    return made


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
    """It stands before the general one; the place that blocks is named, and the score is that of what decided."""
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
async def test_a_model_has_a_threshold_of_its_own(model: str | None, own: float | None, action: Action) -> None:
    """It stands behind that of the caller's key, and before those of sources and of all."""
    terms = {"thresholds": {Source.USER: 0.5}, "model_thresholds": {"lax-*": 0.9}}
    request = ScanRequest((Segment("hello"),), model=model)
    verdict = await engine(Stage(rules(0.8)), **terms).scan(request, Caller(threshold=own))
    assert verdict.action is action


async def test_a_model_is_read_by_its_layers_alone() -> None:
    """Another layer is not asked."""
    request = ScanRequest((Segment("hello"),), model="local")
    only = {"local": frozenset({LayerName.RULES})}
    verdict = await engine(Stage(rules(0.1)), Stage(semantic(0.9)), model_layers=only).scan(request)
    assert [report.layer for report in verdict.reports] == [LayerName.RULES]


async def test_a_layer_reads_the_sources_that_it_is_given() -> None:
    """Texts of other sources are not asked about, nor counted; a layer without any text is not asked."""
    first, later = sized(LayerName.RULES, 0.1, 0.2, 0.95), sized(LayerName.SEMANTIC, 0.3)
    layers = {Source.UNTRUSTED: frozenset({LayerName.RULES}), Source.APPLICATION: frozenset({LayerName.RULES})}
    verdict = await engine(Stage(first), Stage(later), layers=layers).scan(MIXED, Caller(thorough=True))
    assert [len(report.segment_reports) for report in verdict.reports] == [3, 3]
    assert [one.score for one in verdict.reports[1].segment_reports] == [0.3, 0.0, 0.0]
    nobody = {source: frozenset({LayerName.RULES}) for source in Source}
    verdict = await engine(Stage(first), Stage(later), layers=nobody).scan(MIXED)
    assert [report.layer for report in verdict.reports] == [LayerName.RULES]


async def test_a_key_with_a_threshold_of_its_own_is_held_to_it() -> None:
    """Stricter or looser than the general one, for this caller alone."""
    one = engine(Stage(rules(0.5)))
    actions = [(await one.scan(REQUEST, Caller("k", bar))).action for bar in (None, 0.4, 0.5, 0.51)]
    assert actions == [Action.ALLOW, Action.BLOCK, Action.BLOCK, Action.ALLOW]


async def test_a_settled_block_spares_the_layer_unless_everything_is_asked_for() -> None:
    """What is settled depends on the caller's threshold; `thorough` asks all the same."""
    later = semantic(0.1)
    one = engine(Stage(rules(0.7)), Stage(later, until_settled=True))
    await one.scan(REQUEST)
    assert len(later.priors) == 0
    await one.scan(REQUEST, Caller(threshold=0.8))
    await one.scan(REQUEST, Caller(thorough=True))
    assert len(later.priors) == 2


async def test_a_block_is_not_settled_while_a_judge_may_still_replace_it() -> None:
    """Below the judge's upper bound the semantic layer is asked, and no layer stops early."""
    first, later = sized(LayerName.RULES, 0.7), semantic(0.1)
    stages = (Stage(first), Stage(later, until_settled=True), Stage(judge(0.0), between=(0.4, 0.8), replaces=True))
    await engine(*stages, early=True).scan(REQUEST)
    assert (len(later.priors), first.sufficient_score) == (1, 0.8)  # type: ignore[attr-defined]


async def test_layers_are_told_what_is_enough_only_where_that_changes_no_verdict() -> None:
    """The highest bar of the request, and nothing where everything is to be read."""
    for terms, who, enough in (
        ({"early": True}, Caller(), 0.6),
        ({"early": True}, Caller(threshold=0.9), 0.9),
        ({"early": True, "thresholds": {Source.USER: 0.2}}, Caller(), 0.6),
        ({"early": True, "thresholds": {Source.USER: 0.95}}, Caller(), 0.95),
        ({"early": True}, Caller(thorough=True), None),
        ({}, Caller(), None),
    ):
        layer = sized(LayerName.RULES, 0.1)
        await engine(Stage(layer), **terms).scan(REQUEST, who)
        assert layer.sufficient_score == enough  # type: ignore[attr-defined]
