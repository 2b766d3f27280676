"""What `sidecar doctor` sees of a pod: the sidecar, its state, its ports, its upstream, its keys, and who goes past it.

It reads a pod as `kubectl get pods -o json` prints it, or the pod template of a manifest. Secrets are not read: only
whether one is mounted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sidecar.kubernetes.earlier import options_of
from sidecar.kubernetes.spec import NAME, OURS, base_url, items, ports_of, sidecar_of, value_of
from sidecar.kubernetes.templates import Object

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY")
"""Variables of a provider's key that an application beside the sidecar should not have."""
_UNUSED = {None, "", "unused", "none", "x"}
_BASE = "OPENAI_BASE_URL"
_KEPT = "has {} itself, so it can reach the provider without the sidecar"


class Finding(NamedTuple):
    """One line of the report: `level` is `ok`, `warning` or `error`."""

    level: str
    text: str


def inspect(pod: Object) -> list[Finding]:
    """The findings on one pod, its sidecar first."""
    spec: Object = pod.get("spec") or {}
    sidecar = sidecar_of(spec)
    if sidecar is None:
        return [Finding("error", "no sidecar: the application's prompts are not scanned")]
    return [
        *_state(pod),
        *_place(spec, sidecar),
        *_upstream(spec, sidecar),
        *_mode(sidecar),
        *_applications(spec, sidecar),
    ]


def _state(pod: Object) -> Iterator[Finding]:
    status: Object = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    found = next((one for one in statuses if one.get("name") == NAME), None)
    if found is None:
        yield Finding("ok", "has a sidecar; its state is not known (a manifest, or not scheduled yet)")
        return
    state: dict[str, Any] = found.get("state") or {}
    waiting = (state.get("waiting") or state.get("terminated") or {}).get("reason")
    if "running" not in state:
        yield Finding("error", f"the sidecar does not run: {waiting or 'not started'}")
    elif found.get("started") is False:
        yield Finding("warning", "the sidecar runs and is not started yet: /startup has not answered")
    else:
        yield Finding("ok", f"the sidecar runs, image {found.get('image')}")
    if restarts := found.get("restartCount"):
        last = ((found.get("lastState") or {}).get("terminated") or {}).get("reason", "unknown")
        yield Finding("warning", f"the sidecar was restarted {restarts} times, the last time for {last}")


def _place(spec: Object, sidecar: Object) -> Iterator[Finding]:
    data, admin = ports_of(sidecar)
    yield Finding("ok", f"its data port is {data}, its admin port {admin}")
    taken = [
        f"{item.get('name')} declares {port['containerPort']}"
        for item in items(spec, "containers")
        for port in items(item, "ports")
        if item.get("name") not in OURS and port.get("containerPort") in (data, admin)
    ]
    yield from (Finding("error", f"{words}, which is the sidecar's port") for words in taken)
    native = any(item.get("name") == NAME for item in items(spec, "initContainers"))
    if native and sidecar.get("restartPolicy") != "Always":
        yield Finding(
            "error", "the sidecar is an init container without restartPolicy: Always, so the pod never starts"
        )


def _upstream(spec: Object, sidecar: Object) -> Iterator[Finding]:
    url = value_of(sidecar, "SIDECAR__UPSTREAM__URL")
    if not url and "--config" in (sidecar.get("args") or []):
        yield Finding("warning", "its settings are in a file, which is not seen from here")
        return
    if not url or url.startswith("echo"):
        yield Finding("error", "no upstream is set: the sidecar echoes prompts")
    else:
        yield Finding("ok", f"forwards to {url}")
    options = options_of(spec)
    if not value_of(sidecar, "SIDECAR__UPSTREAM__API_KEY_FILE"):
        yield Finding("ok", "has no key of the provider: the application sends its own")
    elif options.get("secret"):
        yield Finding("ok", f"has the provider's key from the Secret {options['secret']}")
    else:
        yield Finding("error", "names a file with the provider's key, and mounts no Secret")


def _mode(sidecar: Object) -> Iterator[Finding]:
    if value_of(sidecar, "SIDECAR__MODE") == "monitor":
        yield Finding("warning", "mode: monitor forwards everything, attacks too")


def _applications(spec: Object, sidecar: Object) -> Iterator[Finding]:
    """Whether an application is led to the sidecar, and which of them could do without."""
    goal, redirected = base_url(ports_of(sidecar)[0]), bool(options_of(spec).get("redirect"))
    apps = [app for app in items(spec, "containers") if app.get("name") not in OURS]
    is_any_led = redirected or any(value_of(app, _BASE) == goal for app in apps)
    for app in apps:
        name, base = app.get("name") or "the container", value_of(app, _BASE)
        if base == goal:
            yield Finding("ok", f"{name}: {_BASE} leads to the sidecar")
        elif redirected:
            yield Finding("ok", f"{name}: its plain HTTP for the model is redirected to the sidecar")
        else:
            level = "warning" if is_any_led and base is None else "error"
            yield Finding(
                level, f"{name}: {_BASE} is {base or 'not set'}, not {goal}: its prompts may bypass the sidecar"
            )
        yield from (Finding("warning", f"{name}: {_KEPT.format(key)}") for key in KEYS if _has_key(app, key))


def _has_key(app: Object, name: str) -> bool:
    entry = next((one for one in items(app, "env") if one.get("name") == name), None)
    return entry is not None and ("valueFrom" in entry or entry.get("value") not in _UNUSED)
