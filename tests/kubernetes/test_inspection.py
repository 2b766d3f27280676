"""Twin of sidecar/kubernetes/inspection.py, on pods as kubectl prints them."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.kubernetes.inspection import inspect
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import with_sidecar

APP = {"name": "app", "image": "app:1"}


def pod(options: Options | None = None, app: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    """A pod with a sidecar of these options, in this state."""
    spec = with_sidecar({"containers": [app or APP]}, options or Options(secret="llm", app_env=True))
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
