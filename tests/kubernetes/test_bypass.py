"""Twin of sidecar/kubernetes/bypass.py."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.kubernetes.bypass import Finding, beside_sidecar, of_gateway

CLIENT = {"prompt-sidecar/client": "true"}


def app(**variables: str | None) -> dict[str, Any]:
    """A pod with one application that has these variables; None: from a Secret."""
    env = [{"name": name, **({"value": value} if value else {"valueFrom": {}})} for name, value in variables.items()]
    return {"containers": [{"name": "a", "env": env}]}


def said(found: list[Finding]) -> str:
    """The findings that are not ok."""
    return "; ".join(f"{one.level} {one.text}" for one in found if one.level != "ok")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ANTHROPIC_BASE_URL": "https://x"}, "error a: ANTHROPIC_BASE_URL is https://x"),
        ({"OPENAI_API_BASE": "https://old/v1"}, "OPENAI_API_BASE is https://old/v1"),
        ({"AZURE_OPENAI_ENDPOINT": None}, "a value from elsewhere"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080"}, ""),
        ({"ANTHROPIC_API_KEY": "secret"}, "has ANTHROPIC_API_KEY itself"),
    ],
)
def test_variables_of_other_clients_are_looked_at(variables: dict[str, str | None], words: str) -> None:
    """Each leads past the sidecar unless it leads to its port."""
    found = said(
        list(beside_sidecar(app(OPENAI_BASE_URL="http://localhost:8080/v1", **variables), 8080, redirected=False))
    )
    assert words in found
    assert bool(found) == bool(words)


def test_an_init_container_that_goes_past_the_sidecar_is_said() -> None:
    """By its own base URL, and by the sidecar's where that does not run yet."""
    led, other = ({"name": "OPENAI_BASE_URL", "value": value} for value in ("http://127.0.0.1:8080/v1", "https://x/v1"))
    sidecar, app_led = {"name": "prompt-sidecar"}, {"name": "a", "env": [led]}
    prep = {"name": "prep", "env": [other]}
    past = {"containers": [app_led], "initContainers": [sidecar, prep]}
    assert "error prep: OPENAI_BASE_URL is https://x/v1" in said(list(beside_sidecar(past, 8080, redirected=False)))
    early = {"containers": [app_led], "initContainers": [{**prep, "env": [led]}, sidecar]}
    assert "error prep: OPENAI_BASE_URL leads to the sidecar, which starts after it" in said(
        list(beside_sidecar(early, 8080, redirected=False))
    )
    follows = {"containers": [app_led], "initContainers": [sidecar, {**prep, "env": [led]}]}
    assert said(list(beside_sidecar(follows, 8080, redirected=False))) == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"args": ["--base-url", "https://api.x/v1"]}, "error a: --base-url is https://api.x/v1"),
        ({"args": ["--openai_base_url=https://api.x/v1"]}, "--openai_base_url is https://api.x/v1"),
        ({"command": ["sh", "-c", "run --api-base 'https://api.x/v1'; true"]}, "--api-base is https://api.x/v1:"),
        ({"args": ["--base-url", "http://127.0.0.1:8080/v1"]}, ""),
        ({"args": ["--base-urls", "https://api.x/v1", "--verbose"]}, ""),
    ],
)
def test_a_base_url_on_the_command_line_is_seen(fields: dict[str, Any], words: str) -> None:
    """Clients prefer it to the variable."""
    spec = app(OPENAI_BASE_URL="http://127.0.0.1:8080/v1")
    spec["containers"][0] |= fields
    found = said(list(beside_sidecar(spec, 8080, redirected=False)))
    assert words in found
    assert bool(found) == bool(words)


def test_sources_that_are_not_read_are_named() -> None:
    """A ConfigMap or a Secret may hold another base URL, or a key."""
    spec = app(OPENAI_BASE_URL="http://127.0.0.1:8080/v1")
    spec["containers"][0]["envFrom"] = [{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "urls"}}]
    assert "warning a: envFrom secret keys, configMap urls" in said(list(beside_sidecar(spec, 8080, redirected=False)))


@pytest.mark.parametrize(
    ("labels", "base", "words"),
    [
        (CLIENT, "http://prompt-sidecar:8080/v1", ""),
        (CLIENT, "http://team-gateway.ai.svc:8080/v1", ""),
        ({}, "http://prompt-sidecar.ai.svc:8080/v1", "without the label prompt-sidecar/client"),
    ],
)
def test_a_client_of_the_gateway_is_recognized(labels: dict[str, str], base: str, words: str) -> None:
    """By the Service's name, or by its label and a Service in the cluster; its key is the gateway's."""
    found = of_gateway(labels, app(OPENAI_BASE_URL=base, OPENAI_API_KEY=None))
    assert found[0].level == "ok"
    assert words in said(found)
    assert bool(said(found)) == bool(words)


@pytest.mark.parametrize("base", ["https://api.openai.com/v1", "https://openai.com/v1", "http://[", None])
def test_a_label_alone_protects_nobody(base: str | None) -> None:
    """A labelled pod with another base URL is no client of the gateway."""
    assert of_gateway(CLIENT, app(OPENAI_BASE_URL=base) if base else app()) == []


def test_a_second_container_of_a_client_may_bypass_the_gateway() -> None:
    """One that has a base URL of its own is named."""
    spec = app(OPENAI_BASE_URL="http://prompt-sidecar:8080/v1")
    spec["containers"].append({"name": "b", "env": [{"name": "OPENAI_BASE_URL", "value": "https://x/v1"}]})
    assert "error b: OPENAI_BASE_URL is https://x/v1" in said(of_gateway(CLIENT, spec))
