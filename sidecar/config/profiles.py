"""Profiles: named terms that a key, or a header of a trusted gateway, selects for its requests.

Precedence: the key's own terms, then those of its profile, then `models`, `scan.sources` and the other settings. So a
threshold of a profile holds for every source that the profile does not name, and the thresholds of `models` do not
count beside it; in the same way its layers stand before those of `models`.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, model_validator

from sidecar.config.scanning import Failure, Layers, RuleOverride, Scan, Sources
from sidecar.config.sections import Off, RateSetting, Score, Section
from sidecar.types import LayerName

if TYPE_CHECKING:
    from sidecar.config.settings import Settings

MAX_PROFILE_NAME = 48
ProfileName = Annotated[str, Field(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_PROFILE_NAME - 1}}}$")]
SectionT = TypeVar("SectionT", bound=BaseModel)


class Profile(Section):
    """Terms of the requests that select it; what is not given is as for all others.

    `budget` and `burst`: of all its clients together, beside the rate of each key.
    """

    mode: Literal["enforce", "monitor"] | None = None
    policies: tuple[Path, ...] | None = None
    rules: dict[str, RuleOverride] = Field(default={})
    layers: tuple[LayerName, ...] | None = Field(default=None, min_length=1)
    threshold: Score | None = None
    sources: Sources = Sources()
    pii: Literal["flag", "redact", "block"] | None = None
    untrusted: Literal["forward", "fence", "datamark"] | None = None
    responses: Annotated[Literal["off", "flag", "block"] | None, Off] = None
    failure: Failure = Failure()
    budget: RateSetting | None = None
    burst: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _burst_needs_budget(self) -> Profile:
        if self.burst is not None and self.budget is None:
            raise ValueError("burst: needs a budget")
        return self


class Gateway(Section):
    """A gateway that selects the profile by a header. Nobody else's header counts, and none is forwarded."""

    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")] = "x-sidecar-profile"
    addresses: tuple[IPv4Network | IPv6Network, ...] = ()
    unknown: Literal["refuse", "default"] = "refuse"


def with_profile(settings: Settings, profile: Profile) -> Settings:
    """The settings of requests with this profile. Raises `ValidationError` where the two do not go together."""
    values = {name: getattr(settings, name) for name in type(settings).model_fields}
    return type(settings).model_validate(values | {"profiles": {}} | _terms(settings, profile))


def _terms(settings: Settings, profile: Profile) -> dict[str, Any]:
    """The settings that the profile replaces."""
    choices = {name: getattr(profile, name) for name in ("mode", "policies", "pii", "untrusted", "responses")}
    dropped = {"threshold": _has_threshold(profile), "layers": profile.layers is not None}
    without = {name: None for name, is_dropped in dropped.items() if is_dropped}
    return {
        **{name: value for name, value in choices.items() if value is not None},
        "rules": {**settings.rules, **profile.rules},
        "models": {name: terms.model_copy(update=without) for name, terms in settings.models.items()},
        "scan": _scan(settings.scan, profile),
        "layers": _layers(settings.layers, profile.layers),
        "failure": merged(settings.failure, profile.failure),
    }


def _has_threshold(profile: Profile) -> bool:
    sources = [getattr(profile.sources, name) for name in profile.sources.model_fields_set]
    return profile.threshold is not None or any("threshold" in source.model_fields_set for source in sources)


def _scan(scan: Scan, profile: Profile) -> Scan:
    if profile.threshold is None:
        return scan.model_copy(update={"sources": merged(scan.sources, profile.sources)})
    general = {name: source.model_copy(update={"threshold": None}) for name, source in scan.sources}
    sources = merged(scan.sources.model_copy(update=general), profile.sources)
    return scan.model_copy(update={"threshold": profile.threshold, "sources": sources})


def _layers(layers: Layers, used: tuple[LayerName, ...] | None) -> Layers:
    if used is None:
        return layers
    changes = {
        str(name): getattr(layers, name).model_copy(update={"url": None} if name == "llm_judge" else {"enabled": False})
        for name in LayerName
        if name not in used
    }
    return layers.model_copy(update=changes)


def merged(section: SectionT, terms: BaseModel) -> SectionT:
    """The section with the fields that were given in `terms`, at every depth."""
    changes = {name: _merged_value(getattr(section, name), getattr(terms, name)) for name in terms.model_fields_set}
    return section.model_copy(update=changes)


def _merged_value(value: object, profile_value: object) -> object:
    return (
        merged(value, profile_value)
        if isinstance(value, BaseModel) and isinstance(profile_value, BaseModel)
        else profile_value
    )
