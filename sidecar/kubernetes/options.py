"""Injection options: the operator's defaults, and what a pod may override by annotations.

Anyone who may create a pod writes annotations, so every value is validated before it reaches the container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import re2

from sidecar.errors import InjectError

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


@dataclass(frozen=True, slots=True)
class Options:
    """One sidecar: its image, its upstream, its mounts, and how the application connects to it.

    `secret` holds the upstream's key under `upstream-key`; `policies` holds `*.yaml` beside the shipped rules.
    `app_env` sets the application's base URL; `redirect` redirects its plain HTTP to the upstream transparently.
    """

    image: str = "prompt-sidecar:0.1.0"
    upstream: str = "https://api.openai.com"
    secret: str | None = None
    policies: str | None = None
    app_env: bool = False
    redirect: bool = False

    def __post_init__(self) -> None:
        """Validate the values. Raises `InjectError`."""
        problems = [*_url_problems(self.upstream), *_name_problems(self.secret, self.policies)]
        if not _IMAGE.fullmatch(self.image):
            problems.append("the image is no image reference")
        if self.redirect and not self.upstream.startswith("http://"):
            problems.append("redirect needs an upstream-url with http://: TLS cannot be inspected")
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


_BY_ANNOTATION = {"upstream-url": "upstream", "upstream-secret": "secret", "policies": "policies"}
_SWITCHES = {"app-env": "app_env", "redirect": "redirect"}


def with_annotations(options: Options, annotations: Mapping[str, object]) -> Options:
    """The options with the pod's annotations applied. Raises `InjectError` with every problem."""
    ours = {str(name): value for name, value in annotations.items() if str(name).startswith(PREFIX)}
    valid_names = {INJECT, STATUS, REPLACED, *(PREFIX + name for name in (*_BY_ANNOTATION, *_SWITCHES))}
    problems = [f"unknown annotation {name[:80]!r}" for name in ours if name not in valid_names]
    problems += [f"{name} must be a string" for name, value in ours.items() if not isinstance(value, str)]
    odd = [name for name in _SWITCHES if ours.get(PREFIX + name, "true") not in {"true", "false"}]
    problems += [f'{name} must be "true" or "false"' for name in odd]
    if problems:
        raise InjectError("the sidecar cannot be injected", problems)
    chosen: dict[str, Any] = {
        field: ours[PREFIX + name] for name, field in _BY_ANNOTATION.items() if PREFIX + name in ours
    }
    chosen |= {field: ours[PREFIX + name] == "true" for name, field in _SWITCHES.items() if PREFIX + name in ours}
    return replace(options, **chosen)


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
