"""What an operator should know of a pod into which the sidecar was injected, beside what was changed in it."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.kubernetes.options import Options
from sidecar.kubernetes.sidecar_settings import settings_of
from sidecar.kubernetes.spec import (
    BASE,
    OTHER_BASES,
    Spec,
    applications,
    base_url_arguments,
    items,
    leads_to,
    own_keys,
    sidecar_of,
    sources,
    value_of,
    without_registry,
)

_SDK_KEY = "OPENAI_API_KEY"
_KEPT = "stays, and with it the application can reach the provider without the sidecar: remove it or set it to `unused`"
_NEEDED = "OpenAI's SDKs do not start without one; any value will do, the sidecar sends its own"


def advice(spec: Spec, options: Options, user: int) -> Iterator[str]:
    """A line each, on the pod as it is after the injection. `user`: the sidecar's."""
    for app in applications(spec):
        name = str(app.get("name") or "the container")
        yield from (f"{name}: {words}" for words in (*_ways_past(app, options), *_keys(app, options)))
    if spec.get("shareProcessNamespace") and _shares_user(spec, user):
        yield f"shareProcessNamespace: an application runs as user {user} like the sidecar, and can read its memory"
    if sidecar := sidecar_of(spec):
        if problem := without_registry(sidecar.get("image")):
            yield f"{problem}; name yours with --image"
        yield from (reduction.text for reduction in settings_of(spec, sidecar, {}).reductions)


def _ways_past(app: Spec, options: Options) -> Iterator[str]:
    if not options.app_env:
        return
    for entry in items(app, "env"):
        if entry.get("name") in OTHER_BASES and not leads_to(entry.get("value"), _ports(app)):
            value = entry.get("value", "a value from elsewhere")
            yield f"{entry['name']} stays {value}; prompts sent there bypass the sidecar"
    for option, value in base_url_arguments(app):
        if not leads_to(value, _ports(app)):
            yield f"{option} {value} stays; prompts sent there bypass the sidecar"


def _keys(app: Spec, options: Options) -> Iterator[str]:
    """With a key in the sidecar, what the application may still have of one."""
    if _needs_key(app, options):
        yield f"has no {_SDK_KEY}; {_NEEDED}"
    if options.secret:
        yield from (f"{key} {_KEPT}" for key in own_keys(app))
        yield from (f"envFrom {origin} is not seen, and may hold the provider's key" for origin in sources(app))


def _ports(app: Spec) -> set[int]:
    """The sidecar's port, where the application is led to it."""
    base = value_of(app, BASE) or ""
    port = base.removesuffix("/v1").rpartition(":")[2]
    return {int(port)} if port.isdigit() else set()


def _needs_key(app: Spec, options: Options) -> bool:
    has_key = any(entry.get("name") == _SDK_KEY for entry in items(app, "env"))
    return bool(options.app_env and options.secret and not has_key and not app.get("envFrom"))


def _shares_user(spec: Spec, user: int) -> bool:
    users = [(item.get("securityContext") or {}).get("runAsUser") for item in [spec, *applications(spec)]]
    return user in users
