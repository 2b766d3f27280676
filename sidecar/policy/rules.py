"""Policies: YAML files of rules, one file per threat family, parsed into one frozen `Policy`.

A rule has exactly one kind of condition: `patterns` (RE2, rules layer), `hidden_in` (rules layer: another rule of this
policy matched only after one of these decodings), `similar_to` (semantic layer) or `question` (judge). It contains its
own tests: `match`, `no_match`, `misses`; `sidecar.detectors.rules.selftest` runs them.

Patterns ignore case unless they say `(?-i)`. `{name}` in a pattern stands for the alternation defined under `words:` in
the same file, which keeps rules readable. All problems of all files are reported at once. `policies/README.md` is the
guide for rule authors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import re2
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from sidecar.errors import YAML_ERRORS, PolicyError
from sidecar.policy import prepared
from sidecar.types import Channel, Label
from sidecar.util import validation, yaml

Score = Annotated[float, Field(ge=0, le=1)]
Lines = tuple[Annotated[str, Field(min_length=1)], ...]


def _reject_renamed(status: object) -> object:
    if status == "stable":
        raise ValueError(
            "`stable` is now called `block` (decides alone); `hint` counts only together with other evidence"
        )
    return status


Status = Annotated[Literal["block", "fallback", "hint", "test", "retired"], BeforeValidator(_reject_renamed)]
"""`block` decides alone; `fallback` does so where no model scores the text, and where one does it blocks unless that
finds the text harmless (`sidecar.scan.fusion`); `hint` counts only with other evidence; `test` is reported only."""
MAX_COMPILED = 128
"""Patterns cached compiled for single searches: places are computed for hits only, and one takes 0.1 MB."""
SHIPPED = Path("shipped")
"""Stands for the shipped policies in a list of paths, so that custom ones can be added to them."""
KINDS = ("patterns", "hidden_in", "similar_to", "question")
_WORD_REFERENCE = re.compile(r"\\[xpP]\{[^}]*\}|\{([a-z_]+)\}")
"""A name in braces, but not RE2's own `\\x{ad}` and `\\p{Greek}`."""


class Rule(BaseModel):
    """A detection rule: its condition, its scores and its test examples."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    id: str = Field(pattern=r"^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+$")
    title: str = Field(min_length=1, max_length=120)
    title_native: str | None = Field(default=None, min_length=1, max_length=120)
    """The title in the rule's own language."""
    label: Label
    score: Score
    indirect_score: Score | None = None
    application_score: Score | None = None
    status: Status = "block"
    languages: tuple[str, ...] = Field(min_length=1)
    channels: tuple[Channel, ...] = (Channel.DIRECT, Channel.INDIRECT)
    patterns: Lines = ()
    hidden_in: Lines = ()
    similar_to: Lines = ()
    topic: Literal["allowed", "denied"] | None = None
    """Whether `similar_to` lists what users may ask, so that anything else matches, or what they may not ask."""
    question: str = ""
    views: tuple[str, ...] = ()
    check: str | None = Field(default=None, alias="validate")
    context: Lines = ()
    context_score: Score | None = None
    literal: bool = False
    match: Lines
    no_match: Lines
    misses: Lines = ()
    references: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_consistency(self) -> Rule:
        if sum(bool(getattr(self, kind)) for kind in KINDS) != 1:
            raise ValueError(f"needs exactly one of {', '.join(KINDS)}")
        if self.status == "fallback" and not self.patterns:
            raise ValueError("status fallback is for rules with patterns")
        if self.topic and not self.similar_to:
            raise ValueError("topic belongs to similar_to")
        if self.topic and self.channels != (Channel.DIRECT,):
            raise ValueError("a rule with topic reads only users' turns: channels is [direct]")
        if not (self.match and self.no_match):
            raise ValueError("needs at least one match and one no_match line")
        if bool(self.context) != (self.context_score is not None):
            raise ValueError("context and context_score belong together")
        for pattern in self.patterns:
            if "\b" in pattern:
                raise ValueError(
                    "a pattern holds a backspace: write patterns in single quotes, where \\b is a word boundary"
                )
            program_size(pattern)
        return self

    @property
    def is_in_latin(self) -> bool:
        """Whether it is for another language in Latin letters."""
        return any(language.endswith("-Latn") for language in self.languages)

    def score_on(self, channel: Channel) -> float | None:
        """The score of a hit on this channel; None where the rule does not apply."""
        if channel not in self.channels:
            return None
        channel_score = {Channel.INDIRECT: self.indirect_score, Channel.APPLICATION: self.application_score}.get(
            channel
        )
        return self.score if channel_score is None else channel_score


class Policy(BaseModel):
    """All rules, in the order of the files, and the digest that identifies them."""

    model_config = ConfigDict(frozen=True)

    rules: tuple[Rule, ...]
    revision: str
    shipped: frozenset[str] = frozenset()
    """The ids of the rules that come with the product."""


class _File(BaseModel):
    """The outer structure of a policy file; its rules are parsed one by one, so that errors name each of them."""

    model_config = ConfigDict(extra="forbid")

    family: Label
    """The label of the rules that state none."""
    status: Status = "block"
    """The status of the rules that state none."""
    words: dict[Annotated[str, Field(pattern="^[a-z_]+$")], str] = {}
    rules: list[dict[str, Any]]


def re2_options() -> re2.Options:
    """The RE2 options of every pattern of a policy, alone or in a set."""
    settings = re2.Options()
    settings.case_sensitive = False
    settings.log_errors = False
    settings.never_capture = True
    return settings


def _compile(pattern: str) -> Any:
    try:
        return re2.compile(pattern, re2_options())
    except re2.error as error:
        raise ValueError(f"pattern {pattern!r}: {_reason(error)}") from None


def _reason(error: re2.error) -> str:
    """RE2's reason; of a look-around, which it names by the operator of another language, in the usual word."""
    reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error.args[0])
    is_look_around = any(sign in reason for sign in ("(?=", "(?!", "(?<"))
    return f"{reason}; RE2 has no look-ahead and no look-behind" if is_look_around else reason


compiled = lru_cache(maxsize=MAX_COMPILED)(_compile)
"""The pattern compiled for a single search. Raises `ValueError` with RE2's reason."""


@lru_cache(maxsize=4096)  # a reload reads the same patterns again, but for a few
def program_size(pattern: str) -> int:
    """Instructions of the pattern's program. Raises `ValueError` with RE2's reason."""
    analysis = prepared.analysis_of(pattern)
    return compiled_size(pattern) if analysis is None else analysis.size


def compiled_size(pattern: str) -> int:
    """The same, from the compiled pattern."""
    return int(_compile(pattern).programsize)


shipped_folder = prepared.folder


def load(paths: Sequence[Path] = ()) -> Policy:
    """Load files, and folders of `*.yaml`; none or `shipped` = the shipped ones. Raises `PolicyError`."""
    problems: list[str] = []
    paths = [shipped_folder() if path == SHIPPED else path for path in paths]
    files = list(_files(paths or (shipped_folder(),), problems))
    digest = hashlib.sha256()
    rules: list[Rule] = []
    places: dict[str, list[str]] = {}
    shipped: set[str] = set()
    for file in files:
        try:
            content = file.read_bytes()
        except OSError as error:
            problems.append(f"{file}: {error.strerror}")
            continue
        digest.update(content + b"\0")
        read = _read(file.name, content, problems)
        rules += read
        for rule in read:
            places.setdefault(rule.id, []).append(str(file))
        if file.parent == shipped_folder():
            shipped.update(rule.id for rule in read)
    problems += [
        f"{rule_id}: this id is used more than once, in {' and '.join(dict.fromkeys(found))}"
        for rule_id, found in places.items()
        if len(found) > 1
    ]
    if problems:
        raise PolicyError("policies cannot be loaded", problems)
    return Policy(rules=tuple(rules), revision=digest.hexdigest()[:12], shipped=frozenset(shipped))


def _files(paths: Sequence[Path], problems: list[str]) -> Iterator[Path]:
    for path in paths:
        inside = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not inside:
            problems.append(f"{path}: no *.yaml in this folder")
        yield from inside


def _read(name: str, content: bytes, problems: list[str]) -> list[Rule]:
    """The valid rules of one file; the problems of the others are added to `problems`."""
    try:
        outer = _File.model_validate(yaml.load(content))
    except ValidationError as error:
        problems += [f"{name}: {_describe(item, _File)}" for item in error.errors()]
    except (yaml.YamlError, *YAML_ERRORS) as error:
        problems.append(f"{name}: {yaml.describe(error)}")
    else:
        expanded: dict[str, str] = {}
        return [rule for values in outer.rules if (rule := _rule(name, outer, values, expanded, problems))]
    return []


def _rule(
    name: str, outer: _File, values: dict[str, Any], expanded: dict[str, str], problems: list[str]
) -> Rule | None:
    where = f"{name}: {values.get('id', 'a rule without id')}"
    try:
        patterns = values.get("patterns")
        if isinstance(patterns, list):
            values = {**values, "patterns": [expand(str(pattern), outer.words, expanded) for pattern in patterns]}
        defaults = {"status": "hint", "channels": ["direct"]} if values.get("topic") else {"status": outer.status}
        return Rule.model_validate({"label": outer.family, **defaults, **values})
    except ValidationError as error:
        problems += [f"{where}: {_describe(item, Rule)}" for item in error.errors()]
    except ValueError as error:
        problems.append(f"{where}: {error}")
    return None


def expand(pattern: str, words: Mapping[str, str], expanded: dict[str, str] | None = None, depth: int = 6) -> str:
    """`{name}` replaced by its definition in `words`; definitions may use each other, a few levels deep.

    `expanded` keeps the definitions with nothing left to replace, for the next pattern with the same `words`.
    """
    expanded = {} if expanded is None else expanded
    if not depth:
        raise ValueError("words are defined by themselves, or too deep")
    parts, position = [], 0
    for match in _WORD_REFERENCE.finditer(pattern):
        name = match.group(1)
        if name is None:
            continue
        if name not in words:
            raise ValueError(f"{{{name}}} is not defined under words")
        if name not in expanded:
            expanded[name] = expand(words[name], words, expanded, depth - 1)
        parts += [pattern[position : match.start()], "(?:", expanded[name], ")"]
        position = match.end()
    return "".join([*parts, pattern[position:]])


def _describe(item: Any, model: type[BaseModel]) -> str:
    place = ".".join(str(part) for part in item["loc"])
    unknown = item["type"] == "extra_forbidden"
    problem = "unknown key" + validation.suggestion(model, item["loc"]) if unknown else validation.describe(item)
    return f"{place}: {problem}" if place else problem
