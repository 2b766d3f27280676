"""What `sidecar doctor` sees of a pod: the sidecar, its state, its ports, its upstream, its keys and its settings.

It reads a pod as `kubectl get pods -o json` prints it, or the pod template of a manifest. Secrets are not read: only
whether one is mounted. Who could bypass the sidecar is found by `sidecar.kubernetes.bypass`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import re2

from sidecar.kubernetes import bypass
from sidecar.kubernetes.bypass import Finding
from sidecar.kubernetes.earlier import options_of
from sidecar.kubernetes.options import INJECT, is_refused
from sidecar.kubernetes.pod import GRACE
from sidecar.kubernetes.spec import NAME, OURS, containers, items, ports_of, sidecar_of, value_of
from sidecar.kubernetes.templates import Object

_SERVE = re2.compile(r"(^|[\s/])sidecar\s+serve\b")
_FAILURE = "SIDECAR__FAILURE"
_OFF = {"SIDECAR__LAYERS__RULES__ENABLED": "rules", "SIDECAR__LAYERS__SEMANTIC__ENABLED": "semantic"}
_UNPROTECTED = (
    f'no sidecar: the application\'s prompts are not scanned; a pod that needs none is labelled {INJECT}: "false"'
)


def inspect(pod: Object, *, knative: bool = False) -> list[Finding]:
    """The findings on one pod, its sidecar first. `knative`: it is the template of one of Knative's objects."""
    spec: Object = pod.get("spec") or {}
    sidecar = sidecar_of(spec)
    if knative and (sidecar or _asks((pod.get("metadata") or {}).get("labels") or {})):
        return [_of_knative(sidecar)]
    if sidecar is None:
        return _without_sidecar(pod.get("metadata") or {}, spec)
    if other := _other_program(sidecar):
        return [Finding("error", f"its container {NAME} runs {other}, not `sidecar serve`: nothing scans its prompts")]
    redirected = bool(options_of(spec).get("redirect"))
    return [
        *_state(pod, sidecar),
        *_place(spec, sidecar),
        *_upstream(spec, sidecar),
        *_settings(sidecar),
        *bypass.beside_sidecar(spec, ports_of(sidecar)[0], redirected=redirected),
    ]


def _asks(labels: Object) -> bool:
    return str(labels.get(INJECT)).lower() == "true"


def _of_knative(sidecar: Object | None) -> Finding:
    if sidecar is None:
        return Finding("skipped", "the webhook puts the sidecar into the pods that Knative makes: examine these")
    return Finding("error", "Knative refuses a sidecar in its objects; the webhook puts it into its pods")


def _without_sidecar(metadata: Object, spec: Object) -> list[Finding]:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if any((item.get("args") or [None])[0] == "webhook" for item in containers(spec) if item.get("name") == "webhook"):
        return [Finding("skipped", "it is the webhook, which sends no prompts")]
    if is_refused(labels, annotations):
        return [Finding("skipped", f"{INJECT} is false: it needs no sidecar, its owner says")]
    return bypass.of_gateway(labels, spec) or [Finding("error", _UNPROTECTED)]


def _other_program(sidecar: Object) -> str | None:
    """What a container of the sidecar's name runs, if it is not `sidecar serve`, the program of its image."""
    command, args = sidecar.get("command") or [], sidecar.get("args") or []
    words = " ".join(str(word) for word in (*command, *args))
    is_serve = _SERVE.search(words) if command else args[:1] in ([], ["serve"])
    return None if is_serve else words[:200]


def _state(pod: Object, sidecar: Object) -> Iterator[Finding]:
    status: Object = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    found = next((one for one in statuses if one.get("name") == NAME), None)
    if found is None:
        words = f"has a sidecar of the image {sidecar.get('image')}; its state is not known"
        yield Finding("ok", f"{words} (a manifest, or not scheduled yet)")
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
    grace = spec.get("terminationGracePeriodSeconds", 30)
    if isinstance(grace, int) and grace < GRACE:
        words = f"terminationGracePeriodSeconds is {grace}: with less than {GRACE} streams are cut at the end"
        yield Finding("warning", words)
    native = any(item.get("name") == NAME for item in items(spec, "initContainers"))
    if native and sidecar.get("restartPolicy") != "Always":
        yield Finding(
            "error", "the sidecar is an init container without restartPolicy: Always, so the pod never starts"
        )


def _upstream(spec: Object, sidecar: Object) -> Iterator[Finding]:
    url = value_of(sidecar, "SIDECAR__UPSTREAM__URL")
    is_in_file = not url and "--config" in (sidecar.get("args") or [])
    if is_in_file:
        yield Finding("ok", "its upstream is in its file of settings")
    elif not url or url.startswith("echo"):
        yield Finding("error", "no upstream is set: the sidecar echoes prompts")
    else:
        yield Finding("ok", f"forwards to {url}")
    yield _key(spec, sidecar)


def _key(spec: Object, sidecar: Object) -> Finding:
    path = value_of(sidecar, "SIDECAR__UPSTREAM__API_KEY_FILE")
    if not path:
        return Finding("ok", "has no key of the provider: the application sends its own")
    volume = _volume_at(spec, sidecar, path)
    secret = (volume.get("secret") or {}).get("secretName")
    if secret:
        return Finding("ok", f"has the provider's key from the Secret {secret}")
    if set(volume) & {"projected", "csi"}:
        return Finding("ok", f"has the provider's key from the volume {volume.get('name')}")
    return Finding("error", "names a file with the provider's key, and mounts no Secret")


def _is_within(path: str, folder: object) -> bool:
    return isinstance(folder, str) and PurePosixPath(path).is_relative_to(folder)


def _volume_at(spec: Object, sidecar: Object, path: str) -> Object:
    """The volume that a path of the sidecar lies in; empty if it is none."""
    mounts = [mount for mount in items(sidecar, "volumeMounts") if _is_within(path, mount.get("mountPath"))]
    deepest = max(mounts, key=lambda mount: len(str(mount["mountPath"])), default={})
    volumes = items(spec, "volumes")
    return next((volume for volume in volumes if deepest and volume.get("name") == deepest.get("name")), {})


def _settings(sidecar: Object) -> Iterator[Finding]:
    """Settings with which less is scanned or refused than by default, as far as they are seen."""
    if value_of(sidecar, "SIDECAR__MODE") == "monitor":
        yield Finding("warning", "mode: monitor forwards everything, attacks too")
    for entry in items(sidecar, "env"):
        name, value = str(entry.get("name")).upper(), str(entry.get("value")).lower()
        if name.startswith(_FAILURE) and any(word in value for word in ("allow", "skip")):
            setting = name.removeprefix("SIDECAR__").replace("__", ".").lower()
            yield Finding("warning", f"{setting} is {value}: what cannot be scanned then passes")
        if name in _OFF and value in {"false", "no", "off", "0"}:
            yield Finding("warning", f"the layer {_OFF[name]} is off")
    is_elsewhere = "--config" in (sidecar.get("args") or []) or bool(items(sidecar, "envFrom"))
    if is_elsewhere:
        yield Finding("warning", "some of its settings are in a file or in envFrom, which is not seen from here")
