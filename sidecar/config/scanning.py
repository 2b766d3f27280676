"""The settings sections about scanning: layers, thresholds, sources, models, rules, and the policy on failure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sidecar.config.sections import Duration, Off, RateSetting, Score, Section, UpstreamHeaders
from sidecar.config.upstream import Upstream
from sidecar.types import LayerName, Source
from sidecar.util.units import Rate

FailurePolicy = Literal["block", "allow"]
LayerFailurePolicy = Literal["block", "skip"]


class ModelOverrides(Section):
    """Settings for one model or a pattern. `layers`: restricts the layers that scan a source to these."""

    upstream: Upstream | None = None
    threshold: Score | None = None
    layers: tuple[LayerName, ...] | None = None

    def merged_with(self, default: Upstream) -> Upstream:
        """The upstream of the model: unset fields are those of `default`, unless they belong to another host."""
        if self.upstream is None:
            return default
        overrides = {name: getattr(self.upstream, name) for name in self.upstream.model_fields_set}
        inherited = set(Upstream.model_fields)
        if "url" in overrides and overrides["url"] != default.url:
            inherited -= {"api_key_file", "tls"}
            overrides.setdefault("headers", UpstreamHeaders(remove=default.headers.remove))
        return Upstream.model_construct(**{name: getattr(default, name) for name in inherited} | overrides)


class SourcePolicy(Section):
    """How the texts of one source are scanned: by which layers, and from which score they block.

    Without a threshold that of `scan` applies.
    """

    layers: tuple[LayerName, ...] = tuple(LayerName)
    threshold: Score | None = None


class ApplicationPolicy(SourcePolicy):
    """The same for texts of the application: with a threshold that is rarely reached by mistake."""

    layers: tuple[LayerName, ...] = (LayerName.RULES, LayerName.SEMANTIC)
    threshold: Score | None = 0.9


class ModelOutputPolicy(SourcePolicy):
    """The same for texts of the model: by the rules alone, with a high threshold."""

    layers: tuple[LayerName, ...] = (LayerName.RULES,)
    threshold: Score | None = 0.9


class Sources(Section):
    """How each source (`sidecar.types.Source`) is scanned. A key's own threshold takes precedence."""

    user: SourcePolicy = SourcePolicy()
    untrusted: SourcePolicy = SourcePolicy()
    application: ApplicationPolicy = ApplicationPolicy()
    model: ModelOutputPolicy = ModelOutputPolicy()

    @property
    def by_source(self) -> dict[Source, SourcePolicy]:
        """The policies by source."""
        return {source: getattr(self, source) for source in Source}


class Scan(Section):
    """The threshold of the verdict, and the bounds of one scan."""

    threshold: Score = 0.6
    sources: Sources = Sources()
    deadline: Duration = 4.0
    deadline_per_mb: Duration = 40.0
    concurrency: int = Field(default=64, ge=1)
    queue: int = Field(default=256, ge=0)


class RulesLayer(Section):
    """Deterministic patterns."""

    enabled: bool = True


class SemanticLayer(Section):
    """The embedding model: nearest known attacks and a trained head."""

    enabled: bool = True
    engine: Literal["onnx", "sentence-transformers"] = "onnx"
    model: Path | None = None
    threads: int = Field(default=1, ge=1, le=64)
    budget: int = Field(default=384, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _removed_settings(cls, values: Any) -> Any:
        removed = {
            "windows": "is gone: text may be as long as a body. layers.semantic.budget bounds what is read closely",
            "batch_tokens": "is gone: windows are no longer read in batches",
        }
        if isinstance(values, dict) and (old := [name for name in removed if name in values]):
            raise ValueError("; ".join(f"{name} {removed[name]}" for name in old))
        return values


class JudgeLayer(Section):
    """A language model that scores prompts in the uncertain band; off without a URL."""

    url: str | None = None
    model: str = ""
    api_key_file: Path | None = None
    between: tuple[Score, Score] = (0.55, 0.85)
    mode: Literal["decide", "advise"] = "decide"
    timeout: Duration = 3.0
    attempts: int = Field(default=2, ge=1, le=5)
    concurrency: int = Field(default=4, ge=1)
    queue: int = Field(default=16, ge=0)
    calls: RateSetting = Rate(120, 60.0)
    tokens: RateSetting = Rate(200_000, 60.0)
    cache: int = Field(default=10_000, ge=0)
    excerpt: int = Field(default=6_000, ge=500, le=200_000)
    control: bool = True
    breaker_failures: int = Field(default=5, ge=1)
    breaker_pause: Duration = 30.0

    @model_validator(mode="after")
    def _complete(self) -> JudgeLayer:
        if self.between[0] > self.between[1]:
            raise ValueError("between: the lower bound is above the upper one")
        if self.url and not self.model:
            raise ValueError("model: a judge needs the name of its model")
        return self


class RuleOverride(Section):
    """What an operator changes about one rule."""

    status: Annotated[Literal["off", "hint", "block"], Off] | None = None
    score: Score | None = None


class Layers(Section):
    """The three detection layers."""

    rules: RulesLayer = RulesLayer()
    semantic: SemanticLayer = SemanticLayer()
    llm_judge: JudgeLayer = JudgeLayer()


class InputFailure(Section):
    """What happens when part of a body cannot be scanned, by cause."""

    oversize: FailurePolicy = "block"
    malformed: FailurePolicy = "block"
    encoding: FailurePolicy = "block"
    media: FailurePolicy = "allow"
    token_ids: FailurePolicy = "block"
    budget: FailurePolicy = "block"
    reference: FailurePolicy = "allow"


class Failure(Section):
    """Fail open or fail closed, by situation."""

    rules: LayerFailurePolicy = "block"
    semantic: LayerFailurePolicy = "block"
    llm_judge: LayerFailurePolicy = "skip"
    all: FailurePolicy = "block"
    answer: FailurePolicy = "block"
    overload: FailurePolicy = "block"
    input: InputFailure = InputFailure()
    unknown_route: FailurePolicy = "block"
    unmarked: FailurePolicy = "allow"
