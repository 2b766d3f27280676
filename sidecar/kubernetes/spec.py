"""The parts of a pod specification: its containers, their variables, and what in it is the sidecar's."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import urlsplit

import re2

from sidecar.errors import InjectError

NAME, REDIRECT = "prompt-sidecar", "prompt-sidecar-redirect"
OURS = {NAME, REDIRECT}
PORTS = ((8080, 8081), (18080, 18081), (28080, 28081))
"""Pairs of ports, data and admin: the first pair that no container of the pod uses is taken."""
PORT_VARIABLES = {"PORT", "APP_PORT", "HTTP_PORT", "LISTEN_PORT", "SERVER_PORT", "UVICORN_PORT"}
"""Variables that frameworks and platforms take the port to listen on from."""
BASE = "OPENAI_BASE_URL"
OTHER_BASES = (
    "OPENAI_API_BASE",
    "ANTHROPIC_BASE_URL",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "MISTRAL_BASE_URL",
    "OLLAMA_HOST",
)
"""Variables of further clients. Injection sets none: the sidecar has one upstream, their provider may be another."""
KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MISTRAL_API_KEY",
)
"""Variables of a provider's key that an application beside the sidecar should not have."""
_BASE_URL_OPTION = re2.compile(r"(--[A-Za-z0-9_-]*(?:base[-_]url|api[-_]base))[= ]+[\"']?([^\s\"';]+)")
_UNUSED = {None, "", "unused", "none", "x"}
"""Values of a key's variable that no provider accepts."""
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
Spec = dict[str, Any]


def items(spec: Spec, key: str) -> list[Spec]:
    """A list of objects in a specification. Raises `InjectError` if it is none."""
    found = spec.get(key) or []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise InjectError("the sidecar cannot be injected", [f"{key} is not a list of objects"])
    return found


def containers(spec: Spec) -> Iterator[Spec]:
    """All containers of a pod, init containers last."""
    for key in ("containers", "initContainers"):
        yield from items(spec, key)


def applications(spec: Spec) -> list[Spec]:
    """The containers that may ask a model: the init containers among them have variables of a client."""
    listed = [*items(spec, "containers"), *filter(_may_ask, items(spec, "initContainers"))]
    return [item for item in listed if item.get("name") not in OURS]


def _may_ask(item: Spec) -> bool:
    """Whether a container has a variable of a client, or any from elsewhere; most init containers ask no model."""
    names = {entry.get("name") for entry in items(item, "env")}
    return bool(names & {BASE, *OTHER_BASES, *KEYS} or items(item, "envFrom"))


def early(spec: Spec) -> list[Spec]:
    """The init containers that end before the sidecar starts: all of them where it is no init container."""
    listed = items(spec, "initContainers")
    place = next((number for number, item in enumerate(listed) if item.get("name") == NAME), len(listed))
    return listed[:place] if sidecar_of(spec) else []


def sidecar_of(spec: Spec) -> Spec | None:
    """The sidecar's container, of whatever making; None if the pod has none."""
    return next((item for item in containers(spec) if item.get("name") == NAME), None)


def value_of(item: Spec, name: str) -> str | None:
    """The value of a container's variable: of several with one name, the last counts."""
    return next((entry.get("value") for entry in reversed(items(item, "env")) if entry.get("name") == name), None)


def own_keys(item: Spec, names: Collection[str] = KEYS) -> list[str]:
    """The variables by which a container has a provider's key itself, as far as its own list says it."""
    holders = (entry for entry in items(item, "env") if "valueFrom" in entry or entry.get("value") not in _UNUSED)
    held = {entry.get("name") for entry in holders}
    return [name for name in names if name in held]


def sources(item: Spec) -> list[str]:
    """Where a container takes further variables from (`envFrom`), each by kind and name."""
    return [_source(entry) for entry in items(item, "envFrom")]


def _source(entry: Spec) -> str:
    kind = next((kind for kind in ("configMapRef", "secretRef") if isinstance(entry.get(kind), dict)), None)
    return f"{kind.removesuffix('Ref')} {entry[kind].get('name')}" if kind else "a source"


def without_registry(image: object) -> str | None:
    """The finding on an image that names no registry: a node takes Docker Hub's. None if it names one."""
    host, slash, _ = str(image).partition("/")
    if slash and (host == "localhost" or "." in host or ":" in host):
        return None
    place = image if slash else f"library/{image}"
    return f"the image {image} names no registry: a node that does not have it pulls docker.io/{place}"


def ports_of(sidecar: Spec) -> tuple[int, int]:
    """The data and the admin port of a sidecar's container."""
    settings = (value_of(sidecar, f"SIDECAR__{name}__PORT") for name in ("LISTEN", "ADMIN"))
    data, admin = (int(value) if value and value.isdigit() else None for value in settings)
    return data or PORTS[0][0], admin or PORTS[0][1]


def base_url(port: int) -> str:
    """Where an application in the pod reaches the sidecar."""
    return f"http://127.0.0.1:{port}/v1"


def base_url_arguments(item: Spec) -> list[tuple[str, str]]:
    """Options of the container's command line that name a base URL, each with its value; a shell's words included."""
    words = " ".join(str(word) for name in ("command", "args") for word in item.get(name) or [])
    return [(found[1], found[2]) for found in _BASE_URL_OPTION.finditer(words)]


def leads_to(value: object, ports: Collection[int]) -> bool:
    """Whether a base URL leads to one of these ports within the pod."""
    try:
        parts = urlsplit(str(value))
        port = parts.port or 80
    except ValueError:
        return False
    return parts.hostname in LOOPBACK and port in ports


def data_ports(spec: Spec) -> set[int]:
    """The data port of the pod's sidecar; empty without one."""
    sidecar = sidecar_of(spec)
    return {ports_of(sidecar)[0]} if sidecar else set()


def used_ports(spec: Spec) -> Iterator[int]:
    """The ports on which the other containers listen, as far as it shows: declared, probed or in a variable."""
    for item in containers(spec):
        if item.get("name") not in OURS:
            yield from (port["containerPort"] for port in items(item, "ports") if "containerPort" in port)
            yield from _probed_ports(item)
            values = (value_of(item, name) or "" for name in PORT_VARIABLES)
            yield from (int(value) for value in values if value.isdecimal() and len(value) < 6)


def _probed_ports(item: Spec) -> Iterator[int]:
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = item.get(name)
        checks = [probe.get(kind) for kind in ("httpGet", "tcpSocket", "grpc")] if isinstance(probe, dict) else []
        ports = (str(check.get("port")) for check in checks if isinstance(check, dict))
        yield from (int(port) for port in ports if port.isdecimal())  # others are names of declared ports
