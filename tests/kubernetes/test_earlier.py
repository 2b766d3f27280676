"""Twin of sidecar/kubernetes/earlier.py."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from sidecar.kubernetes.earlier import options_of, without_sidecar
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import with_sidecar

SPEC = {"containers": [{"name": "app"}]}
ALL = Options("x:2", "http://vllm:8000", "llm", "rules", app_env=True, redirect=True, config_map="settings")


@pytest.mark.parametrize("options", [ALL, Options()])
def test_the_options_of_an_injection_are_read_back_from_the_pod(options: Options) -> None:
    """Every one of them but what is kept as a change by hand is: settings, port and startup."""
    by_hand = {"settings", "data_port", "startup"}
    read_back = {name: value for name, value in asdict(options).items() if name not in by_hand}
    assert options_of(with_sidecar(SPEC, options)) == read_back


def test_a_pod_without_a_sidecar_has_no_options() -> None:
    """Then those of the command line apply."""
    assert options_of(SPEC) == {}


def test_a_volume_that_the_sidecar_alone_mounts_goes_with_it() -> None:
    """One that was added by hand for its settings; a volume of the application stays."""
    pod = with_sidecar({"containers": [{"name": "app", "volumeMounts": [{"name": "own"}]}]}, Options())
    pod["volumes"] += [{"name": "own"}, {"name": "settings"}]
    pod["initContainers"][0]["volumeMounts"] += [{"name": "own"}, {"name": "settings"}]
    assert without_sidecar(pod, {})["volumes"] == [{"name": "own"}]


def test_a_base_url_of_ones_own_stays() -> None:
    """Only the address of the sidecar is removed."""
    own = {"containers": [{"name": "app", "env": [{"name": "OPENAI_BASE_URL", "value": "http://gateway/v1"}]}]}
    assert without_sidecar(with_sidecar(own, Options()), {})["containers"] == own["containers"]
