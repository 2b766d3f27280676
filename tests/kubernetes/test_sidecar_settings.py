"""Twin of sidecar/kubernetes/sidecar_settings.py."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.kubernetes.sidecar_settings import config_map_names, settings_of, volume_at

FILE = "/etc/prompt-sidecar/config/config.yaml"
MONITOR = {"shop": {"data": {"config.yaml": "mode: monitor\nscan: {threshold: 1}\n"}}}


def of_file(path: str = FILE, source: dict[str, Any] | None = None, **mount: Any) -> dict[str, Any]:
    """A pod whose sidecar has its settings in a file of this volume."""
    volume = source or {"configMap": {"name": "shop"}}
    mounted = {"name": "settings", "mountPath": "/etc/prompt-sidecar/config", **mount}
    sidecar = {"name": "prompt-sidecar", "args": ["serve", "--config", path], "volumeMounts": [mounted]}
    return {"initContainers": [sidecar], "volumes": [{"name": "settings", **volume}]}


def seen(spec: dict[str, Any], maps: dict[str, Any] | None = None, *env: dict[str, Any], **fields: Any) -> Any:
    """What is seen of the sidecar, which has these variables."""
    sidecar = {**spec["initContainers"][0], "env": list(env), **fields}
    return settings_of(spec, sidecar, MONITOR if maps is None else maps)


def reasons(found: Any) -> list[str]:
    """Why more passes than by default."""
    return [reduction.reason for reduction in found.reductions]


def var(name: str, value: str) -> dict[str, str]:
    """A variable."""
    return {"name": name, "value": value}


@pytest.mark.parametrize(
    "spec",
    [
        of_file(),
        of_file(
            "/etc/prompt-sidecar/config/a.yaml",
            {"configMap": {"name": "shop", "items": [{"key": "config.yaml", "path": "a.yaml"}]}},
        ),
        of_file("/c.yaml", mountPath="/c.yaml", subPath="config.yaml"),
        of_file(source={"projected": {"sources": [{"secret": {"name": "x"}}, {"configMap": {"name": "shop"}}]}}),
    ],
)
def test_a_file_of_settings_is_read_from_its_config_map(spec: dict[str, Any]) -> None:
    """Wherever it is mounted; variables take precedence over it."""
    found = seen(spec)
    assert (reasons(found), found.read, found.hidden_sources, found.problems) == (
        ["mode", "threshold"],
        ["shop"],
        [],
        [],
    )
    assert reasons(seen(spec, None, var("SIDECAR__MODE", "enforce"), var("sidecar__scan__threshold", "0.5"))) == []
    assert config_map_names(spec, spec["initContainers"][0]) == {"shop"}


@pytest.mark.parametrize(
    ("spec", "maps", "words"),
    [
        (of_file(), {}, "ConfigMap shop, which is not in the input"),
        (of_file(), {"shop": {"data": {"other": "a"}}}, f"file {FILE}"),
        (of_file("/elsewhere/c.yaml"), None, "file /elsewhere/c.yaml"),
        (of_file(source={"secret": {"secretName": "x"}}), None, f"file {FILE}"),
    ],
)
def test_a_file_that_is_not_seen_is_named(spec: dict[str, Any], maps: Any, words: str) -> None:
    """What the variables say is known all the same."""
    found = seen(spec, maps, var("SIDECAR__MODE", "monitor"))
    assert (found.hidden_sources, reasons(found)) == ([words], ["mode"])


def test_variables_come_from_config_maps_too() -> None:
    """By `envFrom` with its prefix, below the container's own, and by `valueFrom`."""
    maps = {"all": {"data": {"MODE": "monitor", "SCAN__THRESHOLD": "1"}}, "one": {"data": {"t": "0.99"}}}
    sources = [{"prefix": "SIDECAR__", "configMapRef": {"name": "all"}}]
    by_key = {"name": "SIDECAR__SCAN__THRESHOLD", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "t"}}}
    spec = {"initContainers": [{"name": "prompt-sidecar"}]}
    found = seen(spec, maps, var("SIDECAR__MODE", "enforce"), by_key, envFrom=sources)
    assert [reduction.text for reduction in found.reductions] == ["scan.threshold: 0.99 blocks hardly anything"]
    sidecar = {"env": [by_key], "envFrom": sources}
    assert config_map_names(spec, sidecar) == {"all", "one"}


@pytest.mark.parametrize(
    ("fields", "hidden_sources"),
    [
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, ["Secret s (envFrom)"]),
        ({"envFrom": [{"configMapRef": {"name": "m"}}]}, ["ConfigMap m (envFrom)"]),
        (
            {"env": [{"name": "SIDECAR__MODE", "valueFrom": {"secretKeyRef": {}}}]},
            ["value of SIDECAR__MODE (valueFrom)"],
        ),
        ({"env": [var("SIDECAR__MODE", "$(MODE)")]}, ["value of SIDECAR__MODE"]),
        ({"env": [var("SIDECAR__MODE_FILE", "/etc/mode")]}, ["file that SIDECAR__MODE_FILE names"]),
        ({"env": [var("SIDECAR__STORE__URL_FILE", "/run/secrets/x/url")]}, []),
        ({"env": [{"name": "SIDECAR__LAYERS__SEMANTIC__THREADS", "valueFrom": {"resourceFieldRef": {}}}]}, []),
    ],
)
def test_a_variable_from_elsewhere_is_named(fields: dict[str, Any], hidden_sources: list[str]) -> None:
    """A secret in a file opens nothing, and no file of this machine is read."""
    found = settings_of({}, {"name": "prompt-sidecar", **fields}, {})
    assert (found.hidden_sources, found.problems) == (hidden_sources, [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "ConfigMap shop, config.yaml: line"),
        ("- a", "the top level must be a mapping"),
        ("moed: x", "did you mean mode?"),
    ],
)
def test_a_file_that_the_sidecar_would_refuse_is_a_problem(text: str, words: str) -> None:
    """What each variable opens is known all the same."""
    found = seen(of_file(), {"shop": {"data": {"config.yaml": text}}}, var("SIDECAR__MODE", "monitor"))
    assert words in found.problems[0]
    assert reasons(found) == ["mode"]


def test_the_volume_of_a_path_is_that_of_the_deepest_mount() -> None:
    """A mount within another hides it."""
    spec = {"volumes": [{"name": "a"}, {"name": "b"}]}
    mounts = [{"name": "a", "mountPath": "/etc"}, {"name": "b", "mountPath": "/etc/x"}]
    assert volume_at(spec, {"volumeMounts": mounts}, "/etc/x/c.yaml") == ({"name": "b"}, "c.yaml")
    assert volume_at(spec, {}, "/etc/x") == ({}, "")
