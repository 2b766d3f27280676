"""Twin of sidecar/kubernetes/advice.py."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.test_objects import IMAGE

from sidecar.kubernetes.advice import advice
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import USER, with_sidecar

LED = Options(IMAGE, app_env=True, secret="llm")


def told(app: dict[str, Any], options: Options = LED, **spec: Any) -> str:
    """The advice on a pod with this application."""
    pod = with_sidecar({"containers": [{"name": "a", **app}], **spec}, options)
    return "; ".join(advice(pod, options, USER))


KEY = {"name": "OPENAI_API_KEY", "value": "unused"}


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ({}, "a: has no OPENAI_API_KEY; OpenAI's SDKs do not start without one"),
        (
            {"envFrom": [{"secretRef": {"name": "x"}}]},
            "a: envFrom secret x is not seen, and may hold the provider's key",
        ),
        ({"env": [{**KEY, "value": "sk-1"}]}, "a: OPENAI_API_KEY stays, and with it the application can reach"),
        ({"env": [KEY, {"name": "ANTHROPIC_API_KEY", "valueFrom": {}}]}, "a: ANTHROPIC_API_KEY stays"),
        ({"env": [KEY]}, ""),
        ({"env": [KEY, {"name": "ANTHROPIC_BASE_URL", "value": "https://x"}]}, "ANTHROPIC_BASE_URL stays https://x"),
        ({"env": [KEY, {"name": "ANTHROPIC_BASE_URL", "value": "http://127.0.0.1:8080"}]}, ""),
        (
            {"env": [KEY], "args": ["--base-url", "https://x"]},
            "a: --base-url https://x stays; prompts sent there bypass",
        ),
    ],
)
def test_what_an_application_still_needs_is_said(app: dict[str, Any], words: str) -> None:
    """A key for its SDK, and the other clients' base URLs, which stay."""
    assert words in told(app)
    assert bool(told(app)) == bool(words)


def test_nothing_is_said_of_an_application_that_is_not_led_to_the_sidecar() -> None:
    """Without `app_env` its variables are its own."""
    assert told({}, Options(IMAGE, secret="llm")) == ""


def test_a_shared_user_in_a_shared_process_namespace_is_said() -> None:
    """The image's user is that of many images."""
    shared = {"shareProcessNamespace": True, "securityContext": {"runAsUser": USER}}
    assert "can read its memory" in told({"env": [KEY]}, LED, **shared)
    assert told({"env": [KEY]}, LED, shareProcessNamespace=True) == ""


def test_monitoring_alone_is_said() -> None:
    """Nobody should take it for protection."""
    assert "mode: monitor" in told({"env": [KEY]}, Options(settings=(("mode", "monitor"),)))


@pytest.mark.parametrize(
    "setting", [("scan.threshold", "1"), ("scan.sources.user.layers", "[]"), ("failure.all", "allow")]
)
def test_a_setting_that_lets_more_pass_is_said(setting: tuple[str, str]) -> None:
    """As `sidecar check` and `doctor` say it; the webhook's response has it as a warning."""
    assert setting[0] in told({"env": [KEY]}, Options(settings=(setting,)))


def test_a_key_without_a_secret_is_the_applications_own() -> None:
    """It is what the sidecar passes on."""
    key = {"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}
    assert told({"env": [key]}, Options(IMAGE)) == ""


@pytest.mark.parametrize(
    ("image", "pulled"),
    [
        ("prompt-sidecar:0.1.0", "docker.io/library/prompt-sidecar:0.1.0"),
        ("prompt-sidecar@sha256:0", "docker.io/library/prompt-sidecar@sha256:0"),
        ("team/prompt-sidecar", "docker.io/team/prompt-sidecar"),
        ("registry.example/prompt-sidecar:1", ""),
        ("registry:5000/prompt-sidecar", ""),
        ("localhost/prompt-sidecar", ""),
        ("docker.io/team/prompt-sidecar", ""),
    ],
)
def test_an_image_without_a_registry_is_said_with_the_option(image: str, pulled: str) -> None:
    """A node takes Docker Hub's otherwise."""
    words = told({}, Options(image))
    assert words == (
        f"the image {image} names no registry: a node that does not have it pulls {pulled}; name yours with --image"
        if pulled
        else ""
    )
