"""Settings of an injected sidecar, as `KEY=VALUE` in the words of `config.yaml`, written into it as variables.

They are checked when they are injected, because a pod whose sidecar refuses its settings does not start. Anyone who
may create a pod writes annotations, so no value may be expanded or hold what a variable cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import re2
import yaml

from sidecar.config import Settings, check
from sidecar.config.sources import variable
from sidecar.util import validation

Pairs = tuple[tuple[str, str], ...]
RESERVED: Mapping[str, str] = {
    "upstream.url": "--upstream, annotation upstream-url",
    "upstream.api_key_file": "--secret, annotation upstream-secret",
    "listen.port": "--data-port, annotation data-port",
    "admin.port": "--data-port, annotation data-port",
    "policies": "--policies, annotation policies",
    "alerts.url": "alerts.url_file, the path of a mounted Secret",
}
"""Settings that have an option of their own, or are secrets."""
MAX_SETTINGS, MAX_VALUE, MAX_BRACKETS = 100, 4_000, 50
_KEY = re2.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")


def parse(lines: Iterable[str]) -> Pairs:
    """The pairs of `KEY=VALUE`, blank lines and comments left out; of one key, the last value counts."""
    texts = (line.strip() for line in lines)
    pairs = (text.partition("=") for text in texts if text and not text.startswith("#"))
    return tuple({key.strip(): value.strip() for key, _, value in pairs}.items())


def problems(pairs: Pairs, *, alone: bool) -> list[str]:
    """What is wrong with them. `alone`: there is no file that holds further settings, so they must fit together."""
    if len(pairs) > MAX_SETTINGS:
        return [f"there are more than {MAX_SETTINGS} settings"]
    if malformed := [problem for key, value in pairs for problem in _form(key, value)]:
        return malformed
    names = validation.settings_of(Settings)
    # The value of a file is in the cluster alone; its setting must exist.
    files = {key for key, _ in pairs if key.endswith("_file") and key not in names}
    unknown = [f"{key}: unknown setting" for key in files if key.removesuffix("_file") not in names]
    values = {key: value for key, value in pairs if key not in files}
    if alone:
        return unknown + check({variable(key): value for key, value in values.items()})
    return unknown + [problem for key, value in values.items() for problem in _own_problems(key, value)]


def _own_problems(key: str, value: str) -> list[str]:
    """The problems of one setting, without those of how it fits to others."""
    problems_of_it = check({variable(key): value})
    return [problem for problem in problems_of_it if problem.startswith(f"{key}:") or "unknown setting" in problem]


def _has_alias(value: str) -> bool:
    """Whether it refers to parts of itself: a few of these stand for millions of entries."""
    try:
        return any(isinstance(token, yaml.AliasToken) for token in yaml.scan(value))
    except yaml.YAMLError:
        return False  # it is refused when it is read


def _form(key: str, value: str) -> list[str]:
    problem = _key_problem(key) or _value_problem(key, value)
    return [problem] if problem else []


def _key_problem(key: str) -> str | None:
    if not _KEY.fullmatch(key):
        return f"{key[:80]!r} is no setting: write it like scan.threshold=0.7"
    if any(name.startswith(f"{key}.") for name in validation.settings_of(Settings)):
        return f"{key} is a section: name its settings one by one"
    return f"{key} is set in another way ({RESERVED[key]})" if key in RESERVED else None


def _value_problem(key: str, value: str) -> str | None:
    if not value or len(value) > MAX_VALUE or not value.isprintable() or "$(" in value:
        return f"{key}: a value is one line of text without $("
    if value.count("[") + value.count("{") > MAX_BRACKETS or _has_alias(value):
        return f"{key}: a value holds at most {MAX_BRACKETS} brackets, and no aliases of YAML"
    if "://" in value and "@" in value:
        return f"{key} holds a password, which manifests must not: write {key}_file=PATH of a mounted Secret"
    return None
