"""Twin of sidecar/kubernetes/earlier.py."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from sidecar.kubernetes.earlier import added_variables, options_of, without_sidecar
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import with_sidecar

SPEC = {"containers": [{"name": "app"}]}
ALL = Options("x:2", "http://vllm:8000", "llm", "rules", app_env=True, redirect=True)


@pytest.mark.parametrize("options", [ALL, Options()])
def test_the_options_of_an_injection_are_read_back_from_the_pod(options: Options) -> None:
    """Every one of them."""
    assert options_of(with_sidecar(SPEC, options)) == asdict(options)


def test_a_pod_without_a_sidecar_has_no_options() -> None:
    """Then those of the command line apply."""
    assert options_of(SPEC) == {}


def test_an_injection_adds_no_variable_that_counts_as_added_by_hand() -> None:
    """Whatever the options and ports."""
    busy = {"containers": [{"name": "app", "ports": [{"containerPort": 8080}]}]}
    assert [added_variables(with_sidecar(spec, options)) for spec in (SPEC, busy) for options in (ALL, Options())] == [
        [],
        [],
        [],
        [],
    ]


def test_a_base_url_of_ones_own_stays() -> None:
    """Only the address of the sidecar is removed."""
    own = {"containers": [{"name": "app", "env": [{"name": "OPENAI_BASE_URL", "value": "http://gateway/v1"}]}]}
    assert without_sidecar(with_sidecar(own, Options()), {})["containers"] == own["containers"]
