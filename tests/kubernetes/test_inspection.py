"""Twin of sidecar/kubernetes/inspection.py, on pods as kubectl prints them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kubernetes.test_objects import IMAGE

from sidecar.kubernetes.inspection import config_maps_of, inspect
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import with_sidecar

APP = {"name": "app", "image": "app:1"}


def pod(options: Options | None = None, app: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    """A pod with a sidecar of these options, of an image with a registry, in this state."""
    used = replace(options or Options(secret="llm", app_env=True), image=IMAGE)
    spec = with_sidecar({"containers": [app or APP]}, used)
    status = {"name": "prompt-sidecar", "image": "x:1", "restartCount": 0, "started": True, **state}
    return {"spec": spec, "status": {"initContainerStatuses": [status]} if state else {}}


RUNNING = {"state": {"running": {"startedAt": "2026-11-01T00:00:00Z"}}}


def levels(one: dict[str, Any]) -> set[str]:
    """The levels of its findings."""
    return {finding.level for finding in inspect(one)}


def texts(one: dict[str, Any]) -> str:
    """Its findings that are not ok."""
    return "; ".join(finding.text for finding in inspect(one) if finding.level != "ok")


def test_a_protected_pod_has_nothing_to_complain_of() -> None:
    """Its port, upstream and Secret are named."""
    found = " ".join(finding.text for finding in inspect(pod(**RUNNING)))
    assert levels(pod(**RUNNING)) == {"ok"}
    assert all(word in found for word in ("8080", "8081", "https://api.openai.com", "Secret llm", "runs, image x:1"))


@pytest.mark.parametrize(
    ("one", "words"),
    [
        ({"spec": {"containers": [APP]}}, "no sidecar"),
        (pod(state={"waiting": {"reason": "ImagePullBackOff"}}), "does not run: ImagePullBackOff"),
        (pod(**RUNNING, started=False), "is not started yet"),
        (
            pod(**RUNNING, restartCount=3, lastState={"terminated": {"reason": "OOMKilled"}}),
            "restarted 3 times, the last time for OOMKilled",
        ),
        (pod(Options(), **RUNNING), "OPENAI_BASE_URL is not set"),
        (pod(Options(), {**APP, "env": [{"name": "OPENAI_BASE_URL", "value": "http://x"}]}), "is http://x, not http:"),
        (pod(app={**APP, "env": [{"name": "OPENAI_API_KEY", "valueFrom": {}}]}), "has OPENAI_API_KEY itself"),
        (pod(app={**APP, "env": [{"name": "OPENAI_API_KEY", "value": "unused"}]}), ""),
    ],
)
def test_what_leaves_a_pod_unprotected_is_said(one: dict[str, Any], words: str) -> None:
    """Each with what was found."""
    assert words in texts(one)
    assert bool(texts(one)) == bool(words)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": ["nc"], "args": ["-lk", "8080"]}, "runs nc -lk 8080, not `sidecar serve`"),
        ({"command": [], "args": ["sleep", "1d"]}, "runs sleep 1d"),
        ({"command": ["/usr/bin/sidecar"], "args": ["serve"]}, ""),
        ({"command": ["python", "-m", "sidecar", "serve", "--no-first-key"], "args": []}, ""),
        ({"command": ["sh", "-c", "exec sidecar serve"], "args": []}, ""),
    ],
)
def test_a_container_of_its_name_that_runs_something_else_is_no_sidecar(fields: dict[str, Any], words: str) -> None:
    """The name alone protects nobody."""
    one = pod(**RUNNING)
    one["spec"]["initContainers"][0] |= fields
    assert words in texts(one)
    assert bool(texts(one)) == bool(words)


def test_the_image_of_a_manifest_is_shown() -> None:
    """Whether it is the sidecar's own cannot be seen from here."""
    assert f"has a sidecar of the image {IMAGE};" in inspect(pod())[0].text


def test_an_image_without_a_registry_is_said() -> None:
    """Whose owner on Docker Hub would be anybody."""
    one = pod(**RUNNING)
    one["spec"]["initContainers"][0]["image"] = "prompt-sidecar:0.1.0"
    assert "a node that does not have it pulls docker.io/library/prompt-sidecar:0.1.0" in texts(one)
    assert levels(one) == {"ok", "warning"}


def test_a_sidecar_that_a_redirection_feeds_needs_no_base_url() -> None:
    """The application cannot go past it."""
    assert texts(pod(Options(upstream="http://vllm:8000", redirect=True), **RUNNING)) == ""


def test_settings_that_do_not_protect_are_said() -> None:
    """Monitoring alone, the built-in echo, a key without a Secret, an application on the sidecar's port."""
    one = pod(**RUNNING)
    sidecar = one["spec"]["initContainers"][0]
    one["spec"]["volumes"] = []
    one["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}]
    sidecar["env"] = [entry for entry in sidecar["env"] if entry["name"] != "SIDECAR__UPSTREAM__URL"]
    sidecar["env"].append({"name": "SIDECAR__MODE", "value": "monitor"})
    del sidecar["restartPolicy"]
    for words in ("monitor", "echoes prompts", "mounts no Secret", "declares 8080", "restartPolicy"):
        assert words in texts(one)


def test_the_secret_is_known_by_the_mount_and_not_by_a_name() -> None:
    """Under any volume's name, and from a projected volume; a folder that is not mounted is none."""
    one = pod(**RUNNING)
    sidecar = one["spec"]["initContainers"][0]
    mount = next(entry for entry in sidecar["volumeMounts"] if "secrets" in entry["mountPath"])
    mount["name"] = "keys"
    one["spec"]["volumes"] = [{"name": "keys", "secret": {"secretName": "other"}}]
    assert any("from the Secret other" in finding.text for finding in inspect(one))
    one["spec"]["volumes"] = [{"name": "keys", "projected": {}}]
    assert texts(one) == ""
    one["spec"]["volumes"] = [{"name": "keys", "emptyDir": {}}]
    assert "mounts no Secret" in texts(one)


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_pod_that_opted_out_is_skipped(place: str) -> None:
    """So a namespace with a database can be without an error."""
    one = {"metadata": {place: {"prompt-sidecar/inject": "false"}}, "spec": {"containers": [APP]}}
    assert levels(one) == {"skipped"}


def test_the_webhook_is_skipped() -> None:
    """It sends no prompts."""
    container = {"name": "webhook", "image": "prompt-sidecar:1", "args": ["webhook", "--app-env"]}
    assert levels({"spec": {"containers": [container]}}) == {"skipped"}


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SIDECAR__FAILURE__ALL", "allow", "failure.all: allow"),
        ("SIDECAR__FAILURE__RULES", "skip", "failure.rules: skip"),
        ("SIDECAR__FAILURE", "{overload: allow}", "failure.overload: allow"),
        ("SIDECAR__FAILURE__ALL", "block", ""),
        ("SIDECAR__LAYERS__RULES__ENABLED", "false", "layers.rules.enabled: false"),
        ("SIDECAR__SCAN__THRESHOLD", "1", "scan.threshold: 1"),
        ("SIDECAR__SCAN__SOURCES__USER__THRESHOLD", "1", "scan.sources.user.threshold: 1"),
        ("SIDECAR__SCAN__SOURCES__UNTRUSTED__LAYERS", "[]", "scan.sources.untrusted.layers"),
        ("SIDECAR__MODELS", '{"*": {threshold: 1}}', "models.*.threshold: 1"),
        ("SIDECAR__RULES", "{INJ-100: {status: off}}", "rules: 1 (INJ-100) switched off"),
        (
            "SIDECAR__EXCEPTIONS",
            "[{rules: [INJ-100], until: 2099-01-01, reason: a, text: '(?s).*'}]",
            "exceptions.0: holds",
        ),
        ("SIDECAR__INLINE__FILES", "allow", "inline.files: allow"),
        ("SIDECAR__POLICIES", "[/etc/prompt-sidecar/policies]", "policies: without `shipped`"),
    ],
)
def test_a_setting_that_opens_the_sidecar_is_said(variable: str, value: str, words: str) -> None:
    """Fail open is a decision that an auditor must see."""
    one = pod(**RUNNING)
    one["spec"]["initContainers"][0]["env"].append({"name": variable, "value": value})
    assert words in texts(one)
    assert bool(texts(one)) == bool(words)


def test_the_template_of_a_knative_object_is_left_to_the_webhook() -> None:
    """If its label asks for it; without the label nothing protects its pods."""
    template = {"metadata": {"labels": {"prompt-sidecar/inject": "true"}}, "spec": {"containers": [APP]}}
    assert [finding.level for finding in inspect(template, knative=True)] == ["skipped"]
    assert levels(template) == {"error"}
    assert [finding.level for finding in inspect({"spec": {"containers": [APP]}}, knative=True)] == ["error"]
    (refused,) = inspect(pod(**RUNNING), knative=True)
    assert (refused.level, "Knative refuses a sidecar" in refused.text) == ("error", True)


def test_a_short_grace_period_is_said() -> None:
    """The application's own, kept or set by hand, may be less than the drain needs."""
    one = pod(**RUNNING)
    one["spec"]["terminationGracePeriodSeconds"] = 30
    assert "terminationGracePeriodSeconds is 30" in texts(one)


def test_settings_that_do_not_start_are_an_error() -> None:
    """The pod would wait for its sidecar forever; with a part unseen they may be complete."""
    one = pod(**RUNNING)
    one["spec"]["initContainers"][0]["env"].append({"name": "SIDECAR__MODE", "value": "observe"})
    assert "so it does not start: mode: must be" in texts(one)
    assert levels(one) == {"ok", "error"}
    one["spec"]["initContainers"][0]["envFrom"] = [{"secretRef": {"name": "s"}}]
    assert levels(one) == {"ok", "warning"}


def test_a_file_of_settings_in_a_given_config_map_is_examined() -> None:
    """Its mode, and its upstream."""
    one = pod(Options(config_map="shop", upstream="https://x"), **RUNNING)
    env = one["spec"]["initContainers"][0]["env"]
    env[:] = [entry for entry in env if entry["name"] != "SIDECAR__UPSTREAM__URL"]
    text = "mode: monitor\nupstream: {url: https://llm.corp}\n"
    found = [finding.text for finding in inspect(one, {"shop": {"data": {"config.yaml": text}}})]
    assert "mode: monitor forwards everything, attacks too" in found
    assert "forwards to https://llm.corp" in found
    assert "its upstream is among the settings that are not seen" in " ".join(finding.text for finding in inspect(one))
    assert config_maps_of(one) == {"shop"}


def test_settings_elsewhere_are_said() -> None:
    """A file of settings and envFrom are not seen."""
    one = pod(**RUNNING)
    one["spec"]["initContainers"][0]["args"] += ["--config", "/etc/c.yaml"]
    assert "not seen from here" in texts(one)
