"""Twin of sidecar/kubernetes/pod.py: ports, grace, variables."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.errors import InjectError
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import REDIRECTING_USER, container, free_ports, with_sidecar
from sidecar.kubernetes.spec import REDIRECT


def spec(*ports: int, **fields: Any) -> dict[str, Any]:
    """A pod whose application declares these ports."""
    return {"containers": [{"name": "app", "ports": [{"containerPort": port} for port in ports]}], **fields}


def test_ports_that_the_application_declares_are_left_to_it() -> None:
    """8080 is what most applications take: then the sidecar goes elsewhere, and the application is pointed there."""
    pod = with_sidecar(spec(8080), Options(app_env=True))
    env = {variable["name"]: variable.get("value") for variable in pod["initContainers"][0]["env"]}
    assert (env["SIDECAR__LISTEN__PORT"], env["SIDECAR__ADMIN__PORT"]) == ("18080", "18081")
    assert pod["initContainers"][0]["ports"] == [{"name": "sidecar-admin", "containerPort": 18081}]
    assert pod["containers"][0]["env"] == [{"name": "OPENAI_BASE_URL", "value": "http://127.0.0.1:18080/v1"}]
    with pytest.raises(InjectError, match="ports"):
        with_sidecar(spec(8080, 18081, 28080), Options())


def test_the_base_url_is_set_once_at_its_old_place() -> None:
    """Other variables may refer to it."""
    old = [{"name": "A", "value": "1"}, {"name": "OPENAI_BASE_URL", "value": "x"}, {"name": "B", "value": "2"}]
    pod = with_sidecar({"containers": [{"name": "app", "env": [*old, old[1]]}]}, Options(app_env=True))
    assert [variable["name"] for variable in pod["containers"][0]["env"]] == ["A", "OPENAI_BASE_URL", "B"]
    assert pod["containers"][0]["env"][1]["value"] == "http://127.0.0.1:8080/v1"


def test_a_pod_gets_time_to_drain_and_other_init_containers_come_after() -> None:
    """60 s at least, never less than it had; the sidecar serves those that come after it."""
    first = {"name": "migrate"}
    pod = with_sidecar(spec(initContainers=[first], terminationGracePeriodSeconds=5), Options())
    assert pod["terminationGracePeriodSeconds"] == 90
    assert pod["initContainers"][1] == first
    assert with_sidecar(spec(terminationGracePeriodSeconds=300), Options())["terminationGracePeriodSeconds"] == 300


def test_a_pod_on_the_network_of_its_node_is_refused() -> None:
    """The doors would be open to the node."""
    with pytest.raises(InjectError, match="hostNetwork"):
        with_sidecar(spec(hostNetwork=True), Options())


def test_it_is_a_native_sidecar_with_least_privilege() -> None:
    """Restarted always, no preStop, no root, no capabilities, read-only root, no key printed."""
    sidecar = container(Options())
    context = sidecar["securityContext"]
    assert (sidecar["restartPolicy"], "lifecycle" in sidecar) == ("Always", False)
    assert (context["runAsUser"], context["runAsNonRoot"], context["readOnlyRootFilesystem"]) == (65532, True, True)
    assert context["capabilities"] == {"drop": ["ALL"]}


REDIRECTED = Options(upstream="http://model.models.svc:8000", redirect=True)


def test_a_redirection_comes_before_everything_and_is_put_there_once() -> None:
    """The step, the sidecar, then the others; injecting again, with it or without, leaves no second one behind."""
    once = with_sidecar(spec(8080, initContainers=[{"name": "migrate"}]), REDIRECTED)
    assert [item["name"] for item in once["initContainers"]] == [REDIRECT, "prompt-sidecar", "migrate"]
    step, sidecar = once["initContainers"][:2]
    assert {"name": "SIDECAR__LISTEN__PORT", "value": "18080"} in step["env"]
    assert sidecar["securityContext"]["runAsUser"] == REDIRECTING_USER == int(step["args"][2])
    assert with_sidecar(once, REDIRECTED) == once
    assert [item["name"] for item in with_sidecar(once, Options())["initContainers"]] == ["prompt-sidecar", "migrate"]


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("model.models.svc", "[model.models, model.models.svc, model.models.svc.cluster.local]"),
        ("model.models.svc.cluster.local", "[model.models, model.models.svc, model.models.svc.cluster.local]"),
        ("model", "[model]"),
        ("10.1.2.3", "[10.1.2.3]"),
        ("llm.svc", "[llm.svc]"),
        ("api.example.com", "[api.example.com]"),
    ],
)
def test_a_service_is_known_by_all_names_that_mean_it_from_anywhere(host: str, names: str) -> None:
    """And whatever is none by its own alone."""
    sidecar = container(Options(upstream=f"http://{host}", redirect=True))
    assert {"name": "SIDECAR__LISTEN__HOSTS", "value": names} in sidecar["env"]


@pytest.mark.parametrize("place", ["pod", "container", "init container"])
def test_no_application_may_run_as_the_user_that_goes_through(place: str) -> None:
    """Its traffic would not be redirected, and nobody would notice."""
    pod: Any = spec(initContainers=[{"name": "migrate"}])
    context = {"runAsUser": REDIRECTING_USER}
    chosen = {"pod": pod, "container": pod["containers"][0], "init container": pod["initContainers"][0]}
    chosen[place]["securityContext"] = context
    with pytest.raises(InjectError, match="redirect"):
        with_sidecar(pod, REDIRECTED)


def test_a_volume_of_the_application_is_not_replaced() -> None:
    """One with the name of a volume that the injection would make is refused; the sidecar's own is made again."""
    own = spec(volumes=[{"name": "prompt-sidecar-data", "hostPath": {"path": "/srv"}}])
    with pytest.raises(InjectError, match="volume prompt-sidecar-data of its own"):
        with_sidecar(own, Options())
    once = with_sidecar(spec(), Options())
    assert with_sidecar(once, Options()) == once


@pytest.mark.parametrize(
    "app",
    [
        {"readinessProbe": {"httpGet": {"path": "/", "port": 8080}}},
        {"livenessProbe": {"tcpSocket": {"port": "8081"}}},
        {"env": [{"name": "PORT", "value": "8080"}]},
    ],
)
def test_a_port_that_is_probed_or_in_a_variable_is_taken(app: dict[str, Any]) -> None:
    """Kubernetes does not ask for `ports`."""
    pod = with_sidecar({"containers": [{"name": "app", **app}]}, Options())
    assert {"name": "SIDECAR__LISTEN__PORT", "value": "18080"} in pod["initContainers"][0]["env"]


def test_the_operator_may_choose_the_port() -> None:
    """The next one is the admin port; one that is taken is refused."""
    sidecar = with_sidecar(spec(8080), Options(app_env=True), free_ports(spec(8080), first=9000))
    assert sidecar["containers"][0]["env"] == [{"name": "OPENAI_BASE_URL", "value": "http://127.0.0.1:9000/v1"}]
    with pytest.raises(InjectError, match="port 9001 is another container's"):
        free_ports(spec(9001), first=9000)


def test_settings_and_a_file_of_settings_reach_the_sidecar() -> None:
    """As variables, over what an injection sets by itself, and as a mounted folder; threads are set once."""
    settings = (("mode", "monitor"), ("log.retention", "7d"), ("layers.semantic.threads", "2"))
    pod = with_sidecar(spec(), Options(config_map="settings", settings=settings, startup=300))
    sidecar = pod["initContainers"][0]
    values = {entry["name"]: entry.get("value") for entry in sidecar["env"]}
    assert (values["SIDECAR__MODE"], values["SIDECAR__LOG__RETENTION"]) == ("monitor", "7d")
    assert [entry for entry in sidecar["env"] if "THREADS" in entry["name"]] == [
        {"name": "SIDECAR__LAYERS__SEMANTIC__THREADS", "value": "2"}
    ]
    assert sidecar["args"][-2:] == ["--config", "/etc/prompt-sidecar/config/config.yaml"]
    assert {"name": "prompt-sidecar-config", "configMap": {"name": "settings"}} in pod["volumes"]
    assert sidecar["startupProbe"]["failureThreshold"] == 300


def test_a_pod_for_windows_is_refused() -> None:
    """The image is for Linux."""
    with pytest.raises(InjectError, match="Windows"):
        with_sidecar(spec(nodeSelector={"kubernetes.io/os": "windows"}), Options())
