"""What `sidecar doctor` sees of a pod: the sidecar, its state, its ports, its upstream, its keys and its settings.

It reads a pod as `kubectl get pods -o json` prints it, or the pod template of a manifest. Secrets are not read: only
whether one is mounted. Who could bypass the sidecar is found by `sidecar.kubernetes.bypass`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import re2

from sidecar.kubernetes import bypass
from sidecar.kubernetes.bypass import Finding
from sidecar.kubernetes.earlier import options_of
from sidecar.kubernetes.options import INJECT, is_refused
from sidecar.kubernetes.pod import GRACE
from sidecar.kubernetes.sidecar_settings import ConfigMaps, SeenSettings, config_map_names, settings_of, volume_at
from sidecar.kubernetes.spec import NAME, OURS, containers, items, ports_of, sidecar_of, value_of, without_registry
from sidecar.kubernetes.templates import Object

_SERVE = re2.compile(r"(^|[\s/])sidecar\s+serve\b")
_UNPROTECTED = (
    f'no sidecar: the application\'s prompts are not scanned; a pod that needs none is labelled {INJECT}: "false"'
)


def inspect(pod: Object, maps: ConfigMaps | None = None, *, knative: bool = False) -> list[Finding]:
    """The findings on one pod, its sidecar first.

    `maps`: ConfigMaps that may hold its settings. `knative`: it is the template of one of Knative's objects.
    """
    spec: Object = pod.get("spec") or {}
    sidecar = sidecar_of(spec)
    if knative and (sidecar or _asks((pod.get("metadata") or {}).get("labels") or {})):
        return [_of_knative(sidecar)]
    if sidecar is None:
        return _without_sidecar(pod.get("metadata") or {}, spec)
    if other := _other_program(sidecar):
        return [Finding("error", f"its container {NAME} runs {other}, not `sidecar serve`: nothing scans its prompts")]
    view = settings_of(spec, sidecar, maps or {})
    redirected = bool(options_of(spec).get("redirect"))
    return [
        *_state(pod, sidecar),
        *_place(spec, sidecar),
        *_upstream(spec, sidecar, view),
        *_settings(view),
        *bypass.beside_sidecar(spec, ports_of(sidecar)[0], redirected=redirected),
    ]


def config_maps_of(pod: Object) -> set[str]:
    """The ConfigMaps that may hold settings of this pod's sidecar."""
    spec: Object = pod.get("spec") or {}
    sidecar = sidecar_of(spec)
    return config_map_names(spec, sidecar) if sidecar else set()


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
    if problem := without_registry(sidecar.get("image")):
        yield Finding("warning", problem)
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


def _upstream(spec: Object, sidecar: Object, view: SeenSettings) -> Iterator[Finding]:
    named = value_of(sidecar, "SIDECAR__UPSTREAM__URL")
    url = named or (view.settings.upstream.url if view.settings else "")
    if url and not url.startswith("echo"):
        yield Finding("ok", f"forwards to {url}")
    elif not named and (view.hidden_sources or view.problems):
        yield Finding("ok", "its upstream is among the settings that are not seen from here")
    else:
        yield Finding("error", "no upstream is set: the sidecar echoes prompts")
    yield _key(spec, sidecar)


def _key(spec: Object, sidecar: Object) -> Finding:
    path = value_of(sidecar, "SIDECAR__UPSTREAM__API_KEY_FILE")
    if not path:
        return Finding("ok", "has no key of the provider: the application sends its own")
    volume, _ = volume_at(spec, sidecar, path)
    secret = (volume.get("secret") or {}).get("secretName")
    if secret:
        return Finding("ok", f"has the provider's key from the Secret {secret}")
    if set(volume) & {"projected", "csi"}:
        return Finding("ok", f"has the provider's key from the volume {volume.get('name')}")
    return Finding("error", "names a file with the provider's key, and mounts no Secret")


def _settings(view: SeenSettings) -> Iterator[Finding]:
    """Settings with which less is scanned or refused than by default, as far as they are seen."""
    yield from (
        Finding("ok", f"its settings are those of the ConfigMap {name} and its variables") for name in view.read
    )
    yield from (Finding("warning", reduction.text) for reduction in view.reductions)
    yield from (
        Finding("warning", f"some of its settings are not seen from here: {words}") for words in view.hidden_sources
    )
    # With a part hidden_sources, the settings may fit together in the pod.
    level, words = ("warning", "as far as they are seen") if view.hidden_sources else ("error", "so it does not start")
    yield from (Finding(level, f"its settings are refused, {words}: {problem}") for problem in view.problems)
