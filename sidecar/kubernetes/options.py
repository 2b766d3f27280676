"""Injection options: the operator's defaults, and what a pod may override by annotations.

Anyone who may create a pod writes annotations, so every value is validated before it reaches the container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

import re2

from sidecar.errors import InjectError
from sidecar.kubernetes import pod_settings
from sidecar.kubernetes.pod_settings import Pairs

PREFIX = "prompt-sidecar/"
INJECT = PREFIX + "inject"
"""A label or annotation: `"true"` requests the sidecar, `"false"` forbids it."""
STATUS = PREFIX + "status"
"""The annotation on an injected sidecar: a new injection replaces it, and leaves a manually added one alone. As a label
it is what the PodMonitor selects."""
REPLACED = PREFIX + "replaced-base-urls"
"""The annotation that keeps the base URLs which an injection has replaced (`sidecar.kubernetes.base_urls`)."""
_NAME = re2.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_IMAGE = re2.compile(r"[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,510}")
_LONGEST_URL = 2_000
OPTIONAL = ("secret", "policies", "config_map")
"""Options that name an object of the cluster; an empty name removes one."""
MIN_PORT, MAX_PORT = 1024, 65534
STARTUP_SECONDS = (10, 3600)


@dataclass(frozen=True, slots=True)
class Options:
    """One sidecar: its image, its upstream, its mounts, and how the application connects to it.

    `secret` holds the upstream's key under `upstream-key`; `policies` holds `*.yaml` beside the shipped rules.
    `app_env` sets the application's base URL; `redirect` redirects its plain HTTP to the upstream transparently.
    `config_map` holds a `config.yaml`, over which `settings` take precedence. The admin port is the one after
    `data_port` (default: the first free pair). The start may take `startup` seconds.
    """

    image: str = "prompt-sidecar:0.1.0"
    upstream: str = "https://api.openai.com"
    secret: str | None = None
    policies: str | None = None
    app_env: bool = False
    redirect: bool = False
    config_map: str | None = None
    settings: Pairs = ()
    data_port: int | None = None
    startup: int = 180

    def __post_init__(self) -> None:
        """Validate the values. Raises `InjectError`."""
        problems = [*_url_problems(self.upstream), *_name_problems(self.secret, self.policies, self.config_map)]
        if not _IMAGE.fullmatch(self.image):
            problems.append("the image is no image reference")
        if self.redirect and not self.upstream.startswith("http://"):
            problems.append("redirect needs an upstream-url with http://: TLS cannot be inspected")
        if self.data_port is not None and not MIN_PORT <= self.data_port <= MAX_PORT:
            problems.append(f"data-port must be between {MIN_PORT} and {MAX_PORT}")
        if not STARTUP_SECONDS[0] <= self.startup <= STARTUP_SECONDS[1]:
            problems.append(f"startup-seconds must be between {STARTUP_SECONDS[0]} and {STARTUP_SECONDS[1]}")
        problems += pod_settings.problems(self.settings, alone=self.config_map is None)
        if problems:
            raise InjectError("the sidecar cannot be injected", problems)


def _url_problems(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ["upstream-url cannot be read"]
    sound = parts.scheme in {"http", "https"} and parts.hostname and port != 0 and url.isascii() and url.isprintable()
    if not sound or len(url) > _LONGEST_URL or " " in url or "$" in url:
        return ["upstream-url must be http://... or https://..., without blanks and dollar signs"]
    return ["upstream-url must hold no user and password: use upstream-secret"] if "@" in parts.netloc else []


def _name_problems(*names: str | None) -> list[str]:
    return [
        f"{name[:60]!r} is no name of a Secret or ConfigMap" for name in names if name and not _NAME.fullmatch(name)
    ]


_TEXTS = {"upstream-url": "upstream", "upstream-secret": "secret", "policies": "policies", "config-map": "config_map"}
_SWITCHES = {"app-env": "app_env", "redirect": "redirect"}
_NUMBERS = {"data-port": "data_port", "startup-seconds": "startup"}
_ON_OFF = {"true", "false"}
_MODE, _SETTINGS = "mode", "settings"
_NAMES = [PREFIX + name for name in (*_TEXTS, *_SWITCHES, *_NUMBERS, _MODE, _SETTINGS)]


def with_annotations(options: Options, annotations: Mapping[str, object]) -> Options:
    """The options with the pod's annotations applied. Raises `InjectError` with every problem."""
    ours = {str(name): value for name, value in annotations.items() if str(name).startswith(PREFIX)}
    problems = [_unknown(name) for name in ours if name not in {INJECT, STATUS, REPLACED, *_NAMES}]
    problems += [f"{name} must be a string" for name, value in ours.items() if not isinstance(value, str)]
    texts = {name.removeprefix(PREFIX): str(value) for name, value in ours.items()}
    problems += [f'{name} must be "true" or "false"' for name in _SWITCHES if texts.get(name, "true") not in _ON_OFF]
    problems += [f"{name} must be a whole number" for name in _NUMBERS if not texts.get(name, "1").isdecimal()]
    if problems:
        raise InjectError("the sidecar cannot be injected", problems)
    values: dict[str, Any] = {field: texts[name] for name, field in _TEXTS.items() if name in texts}
    values |= {field: texts[name] == "true" for name, field in _SWITCHES.items() if name in texts}
    values |= {field: int(texts[name][:9]) for name, field in _NUMBERS.items() if name in texts}
    return replace(options, **values, settings=_merged(options.settings, texts))


def _unknown(name: str) -> str:
    matches = get_close_matches(name, _NAMES, 1, 0.7)
    return f"unknown annotation {name[:80]!r}" + (f"; did you mean {matches[0]}?" if matches else "")


def _merged(settings: Pairs, texts: Mapping[str, str]) -> Pairs:
    """The operator's settings, overridden by those of the annotations."""
    own = dict(pod_settings.parse(texts.get(_SETTINGS, "").splitlines()))
    mode = {_MODE: texts[_MODE]} if _MODE in texts else {}
    return tuple({**dict(settings), **mode, **own}.items())


def names_upstream(annotations: Mapping[str, object]) -> bool:
    """Whether a pod's annotations name the upstream."""
    return PREFIX + "upstream-url" in annotations


def wants(labels: Mapping[str, object], annotations: Mapping[str, object], *, default: bool) -> bool:
    """Whether the pod should get a sidecar. A refusal takes precedence over a request."""
    if is_refused(labels, annotations):
        return False
    return default or bool(_answers(labels, annotations) & {"true", "enabled"})


def is_refused(labels: Mapping[str, object], annotations: Mapping[str, object]) -> bool:
    """Whether a pod's owner wants no sidecar in it."""
    return bool(_answers(labels, annotations) & {"false", "disabled"})


def _answers(labels: Mapping[str, object], annotations: Mapping[str, object]) -> set[str]:
    return {str(labels.get(INJECT)).lower(), str(annotations.get(INJECT)).lower()}
