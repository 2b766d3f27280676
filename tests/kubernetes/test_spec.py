"""Twin of sidecar/kubernetes/spec.py."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.errors import InjectError
from sidecar.kubernetes.spec import applications, data_ports, early, items, leads_to, ports_of, sidecar_of, value_of

SPEC = {"containers": [{"name": "app"}], "initContainers": [{"name": "prompt-sidecar"}]}


def test_the_sidecar_and_the_applications_are_told_apart() -> None:
    """By the name of the container, in either list."""
    assert sidecar_of(SPEC) == {"name": "prompt-sidecar"}
    assert applications(SPEC) == [{"name": "app"}]
    assert (sidecar_of({}), data_ports({}), data_ports(SPEC)) == (None, set(), {8080})


@pytest.mark.parametrize(
    ("prepared", "is_one"),
    [
        ({"env": [{"name": "OPENAI_BASE_URL", "value": "https://x/v1"}]}, True),
        ({"env": [{"name": "ANTHROPIC_API_KEY", "valueFrom": {}}]}, True),
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, True),
        ({"env": [{"name": "DATABASE_URL", "value": "x"}]}, False),
        ({}, False),
    ],
)
def test_an_init_container_with_a_clients_variables_is_an_application(prepared: dict[str, Any], is_one: bool) -> None:
    """It may ask a model before the others run; the sidecar runs already."""
    spec = {"containers": [{"name": "app"}], "initContainers": [{"name": "prompt-sidecar"}, {"name": "p", **prepared}]}
    assert [item["name"] for item in applications(spec)] == (["app", "p"] if is_one else ["app"])


def test_init_containers_before_the_sidecar_are_early() -> None:
    """All are, beside a sidecar that is an ordinary container."""
    first, last = {"name": "first"}, {"name": "last"}
    assert early({"initContainers": [first, {"name": "prompt-sidecar"}, last]}) == [first]
    assert early({"containers": [{"name": "prompt-sidecar"}], "initContainers": [first, last]}) == [first, last]
    assert early({"initContainers": [first]}) == []


def test_of_two_variables_with_one_name_the_last_counts() -> None:
    """As in Kubernetes."""
    env = [{"name": "SIDECAR__LISTEN__PORT", "value": "1"}, {"name": "SIDECAR__LISTEN__PORT", "value": "9090"}]
    assert (value_of({"env": env}, "SIDECAR__LISTEN__PORT"), ports_of({"env": env})) == ("9090", (9090, 8081))


@pytest.mark.parametrize(
    ("value", "is_led"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://localhost:8080/v1/", True),
        ("http://[::1]:8080", True),
        ("http://127.0.0.1:18080/v1", False),
        ("https://llm.example/v1", False),
        ("http://[", False),
        (None, False),
    ],
)
def test_an_address_leads_to_the_sidecar_by_its_port_on_loopback(value: str | None, is_led: bool) -> None:
    """Whatever its path."""
    assert leads_to(value, {8080}) is is_led


def test_what_is_no_list_of_objects_is_an_error() -> None:
    """It names the field."""
    with pytest.raises(InjectError, match="env"):
        items({"env": "text"}, "env")
