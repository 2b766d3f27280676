"""The Kubernetes manifests: valid for every supported version, true to the code, and with a sidecar's manners."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from kubernetes.test_objects import KINDS, workload

from sidecar import config, policy
from sidecar.cli.redirect import port_of
from sidecar.kubernetes.inspection import inspect
from sidecar.kubernetes.objects import inject
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.pod import GRACE, REDIRECTING_USER, USER, container
from sidecar.kubernetes.spec import NAME, REDIRECT
from tools import monitoring

K8S = Path(__file__).parent.parent / "k8s"
PODS = ("pod", "pod-classic", "pod-redirect")
OVERLAYS = (*PODS, "gateway", "injector")
NATIVE = "1.29"
VERSIONS = (NATIVE, "1.33", kubernetes_validate.latest_version())
ROOM_TO_DRAIN = 60
CUSTOM = {"PodMonitor", "PrometheusRule", "Issuer", "Certificate"}
"""Kinds of operators, which no schema of Kubernetes knows."""
ASKED = Options(upstream="http://model.models.svc:8000", secret="llm", policies="rules", app_env=True, redirect=True)
BUILT: dict[str, list[dict[str, Any]]] = {}


def kustomized(folder: Path) -> list[dict[str, Any]]:
    """The objects that kustomize makes of a folder."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: `kubectl kustomize` builds the overlays")
    made = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, timeout=100, check=False
    )
    assert made.returncode == 0, made.stderr
    return list(yaml.safe_load_all(made.stdout))


def built(overlay: str) -> list[dict[str, Any]]:
    """The objects of an overlay, as kustomize makes them."""
    if overlay not in BUILT:
        BUILT[overlay] = kustomized(K8S / "overlays" / overlay)
    return BUILT[overlay]


def with_components(folder: Path, overlay: str, *components: str) -> list[dict[str, Any]]:
    """The objects of an overlay with further components."""
    shutil.copytree(K8S, folder / "k8s")
    file = folder / "k8s" / "overlays" / overlay / "kustomization.yaml"
    described = yaml.safe_load(file.read_text("utf-8"))
    described["components"] += [f"../../components/{name}" for name in components]
    file.write_text(yaml.safe_dump(described), "utf-8")
    return kustomized(file.parent)


def pods(overlay: str) -> Iterator[dict[str, Any]]:
    """The pod templates of an overlay."""
    for one in built(overlay):
        if one["kind"] == "Deployment":
            yield one["spec"]["template"]["spec"]


def ours(overlay: str) -> dict[str, Any]:
    """The sidecar's container, wherever it is."""
    (found,) = (
        one
        for pod in pods(overlay)
        for one in [*pod.get("initContainers", []), *pod["containers"]]
        if one["name"] in {NAME, "webhook"}
    )
    return dict(found)


def plain(value: object) -> Any:
    """Without what a YAML reader may have made of it."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", [*OVERLAYS, "monitoring"])
def test_every_object_is_valid_by_the_schema(overlay: str, version: str) -> None:
    """Strictly: a misspelt field is an error."""
    for one in built(overlay):
        if one["kind"] not in CUSTOM:
            kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_injected_is_valid_by_the_schema(kind: str, version: str) -> None:
    """Every workload, with everything that may be asked for."""
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    made = inject(workload(kind, pod), ASKED)
    made |= {"apiVersion": {"Pod": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")}
    spec = made["spec"]
    if kind in {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}:
        spec |= {"selector": {"matchLabels": {"app": "x"}}}
    if kind == "StatefulSet":
        spec |= {"serviceName": "x"}
    if kind == "CronJob":
        spec |= {"schedule": "0 * * * *"}
    kubernetes_validate.validate(made, version, strict=True)


def test_the_schemas_would_find_a_mistake() -> None:
    """The check itself: a misspelt probe is no valid sidecar."""
    made = inject(workload("Pod"), Options())
    made["spec"]["initContainers"][0]["startupProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(made, NATIVE, strict=True)


def test_the_base_and_the_injector_make_the_same_container() -> None:
    """One sidecar, two ways to it."""
    patch = yaml.safe_load((K8S / "base" / "sidecar.yaml").read_text("utf-8"))["spec"]["template"]["spec"]
    made = container(Options(image="prompt-sidecar"))
    assert plain(patch["initContainers"]) == [made]
    assert "terminationGracePeriodSeconds" not in patch, "the pod's grace is the application's"
    assert [pod["terminationGracePeriodSeconds"] for pod in pods("pod")] == [GRACE]


def by_name(items: list[dict[str, Any]]) -> dict[str, Any]:
    """A list as Kubernetes sees it: the order of variables and volumes means nothing."""
    lists = ("env", "volumeMounts")
    return {item["name"]: {key: by_name(one) if key in lists else one for key, one in item.items()} for item in items}


@pytest.mark.parametrize(
    ("overlay", "more"),
    [("pod", Options()), ("pod-redirect", Options(upstream="http://model.models.svc:8000", redirect=True))],
)
def test_an_overlay_and_the_injector_make_the_same_pod(overlay: str, more: Options) -> None:
    """Every container of ours, in the same order, and every volume."""
    asked = replace(more, secret="prompt-sidecar", policies="prompt-sidecar-policies")
    wanted = inject(workload("Pod"), asked)["spec"]
    (pod,) = pods(overlay)
    assert [one["name"] for one in pod["initContainers"]] == [one["name"] for one in wanted["initContainers"]]
    assert by_name(pod["initContainers"]) == by_name(wanted["initContainers"])
    assert by_name(pod["volumes"]) == by_name(wanted["volumes"])


def settings_of(made: dict[str, Any], folder: Path) -> config.Settings:
    """What a container's environment says; fails on a name that is no setting."""
    (folder / "c.yaml").write_text("", "utf-8")
    env = {item["name"]: item.get("value", "1") for item in made["env"]}
    for name in [name for name in env if name.endswith("URL_FILE")]:
        url = "postgresql://host/sidecar" if "STORE" in name else "redis://host:6379/0"
        (folder / name).write_text(url, "utf-8")
        env[name] = str(folder / name)
    return config.load(folder / "c.yaml", env)


@pytest.mark.parametrize("overlay", [*PODS, "gateway"])
def test_every_variable_is_a_real_setting(overlay: str, tmp_path: Path) -> None:
    """The environment of the manifests is a valid configuration, with the ports that are declared."""
    made = ours(overlay)
    settings = settings_of(made, tmp_path)
    declared = {port["name"]: port["containerPort"] for port in made["ports"]}
    assert declared["sidecar-admin"] == settings.admin.port
    assert declared.get("http", settings.listen.port) == settings.listen.port
    assert settings.listen.host == ("0.0.0.0" if overlay == "gateway" else "127.0.0.1")  # noqa: S104 - inside a pod
    assert settings.drain.timeout == ROOM_TO_DRAIN


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_container_has_no_privilege_and_probes_that_end(overlay: str) -> None:
    """No root, no capability, no way to more, a read-only root, bounded memory; the paths are served."""
    made = ours(overlay)
    context = made["securityContext"]
    user = REDIRECTING_USER if overlay == "pod-redirect" else USER
    assert (context["runAsNonRoot"], context["runAsUser"], context["readOnlyRootFilesystem"]) == (True, user, True)
    assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "memory" in made["resources"]["limits"]
    assert "cpu" not in made["resources"]["limits"]
    paths = {made[name]["httpGet"]["path"] for name in made if name.endswith("Probe")}
    assert paths <= {"/startup", "/health", "/ready"}
    assert made["livenessProbe"]["httpGet"]["path"] == "/health"
    assert all(pod["automountServiceAccountToken"] is False for pod in pods(overlay))


@pytest.mark.parametrize("overlay", ["pod", "pod-redirect"])
def test_the_native_sidecar_starts_first_and_ends_last(overlay: str) -> None:
    """Restarted always, a start that is waited for, no preStop, no readiness that takes the application away."""
    (pod,) = pods(overlay)
    made = next(one for one in pod["initContainers"] if one["name"] != REDIRECT)
    assert (made["name"], made["restartPolicy"]) == (NAME, "Always")
    assert "startupProbe" in made
    assert not {"lifecycle", "readinessProbe"} & set(made)
    assert pod["terminationGracePeriodSeconds"] > ROOM_TO_DRAIN


def test_the_redirection_and_the_sidecar_agree(tmp_path: Path) -> None:
    """The same upstream and the same user; the step before everything has NET_ADMIN and nothing else."""
    (pod,) = pods("pod-redirect")
    step, made = pod["initContainers"]
    serving, redirecting = settings_of(made, tmp_path), settings_of(step, tmp_path)
    assert serving.upstream.url == redirecting.upstream.url
    assert (serving.listen.port, serving.listen.hosts) == (redirecting.listen.port, redirecting.listen.hosts)
    assert port_of(redirecting) == urlsplit(serving.upstream.url).port
    assert {made["securityContext"]["runAsUser"], int(step["args"][2])} == {REDIRECTING_USER}
    assert (step["name"], step["image"], "restartPolicy" in step) == (REDIRECT, made["image"], False)
    context = step["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert pod["containers"][0]["securityContext"]["runAsUser"] != REDIRECTING_USER


@pytest.mark.parametrize("overlay", ["pod-classic", "gateway"])
def test_waiting_and_draining_fit_into_the_pods_grace(overlay: str) -> None:
    """An ordinary container waits first, then drains; both together take less than the pod is given."""
    (pod,) = pods(overlay)
    made = ours(overlay)
    assert "restartPolicy" not in made
    assert not pod.get("initContainers")
    (command,) = (part for part in made["lifecycle"]["preStop"]["exec"]["command"] if "sleep" in part)
    wait = int(command.rpartition("(")[2].strip(")"))
    assert wait + ROOM_TO_DRAIN < pod["terminationGracePeriodSeconds"]


def test_the_classic_way_keeps_the_init_containers_of_the_application(tmp_path: Path) -> None:
    """With two containers of its own, too: the sidecar alone moves, and is an ordinary container with a preStop."""
    shutil.copytree(K8S, tmp_path / "k8s")
    application = tmp_path / "k8s" / "base" / "application.yaml"
    document = yaml.safe_load(application.read_text("utf-8"))
    spec = document["spec"]["template"]["spec"]
    spec["initContainers"] = [{"name": "migrate", "image": "m:1"}, {"name": "secrets", "image": "s:1"}]
    spec["containers"].append({"name": "helper", "image": "h:1"})
    application.write_text(yaml.safe_dump(document), "utf-8")
    made = kustomized(tmp_path / "k8s" / "overlays" / "pod-classic")
    pod = next(one for one in made if one["kind"] == "Deployment")["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["initContainers"]] == ["migrate", "secrets"]
    assert [one["name"] for one in pod["containers"]] == ["chat", "helper", NAME]
    assert ("restartPolicy" in pod["containers"][2], "preStop" in pod["containers"][2]["lifecycle"]) == (False, True)


def test_one_image_everywhere() -> None:
    """Overlays and the injector's default name the same image; the webhook hands out the one that it is."""
    images = {ours(overlay)["image"] for overlay in OVERLAYS}
    arguments = ours("injector")["args"]
    assert images == {Options().image, arguments[arguments.index("--image") + 1]}


def test_the_webhook_can_stop_nobody_who_did_not_ask() -> None:
    """`failurePolicy: Fail` is for pods with the label, outside its own namespace and the cluster's."""
    (hook,) = next(one for one in built("injector") if one["kind"] == "MutatingWebhookConfiguration")["webhooks"]
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Fail", "None")
    assert hook["objectSelector"] == {"matchLabels": {"prompt-sidecar/inject": "true"}}
    (kept_out,) = hook["namespaceSelector"]["matchExpressions"]
    assert (kept_out["operator"], set(kept_out["values"])) == ("NotIn", {"prompt-sidecar", "kube-system"})


def test_every_exception_from_checkov_has_a_place_and_a_reason() -> None:
    """`make manifests` compares them with what checkov finds; here, that none names what is not there."""
    listed = yaml.safe_load((K8S / "checkov.yaml").read_text("utf-8"))
    assert {place for entry in listed.values() for place in entry["where"]} <= {*OVERLAYS, "Dockerfile"}
    assert all(len(entry["reason"]) > 20 for entry in listed.values())


def test_the_rule_that_is_shown_is_a_rule() -> None:
    """The example of the ConfigMap loads beside the shipped policies."""
    loaded = policy.load([Path("shipped"), K8S / "components" / "policies" / "own.yaml"])
    assert "OWN-1" in {rule.id for rule in loaded.rules}


def test_a_start_of_the_webhook_takes_the_manifests_options() -> None:
    """Every option in the Deployment is one of the command's."""
    from sidecar.cli.kubernetes import webhook_command  # noqa: PLC0415 - the command line is imported where it is meant

    known = {name for parameter in webhook_command.params for name in parameter.opts}
    assert {argument for argument in ours("injector")["args"] if argument.startswith("--")} <= known


@pytest.mark.parametrize("overlay", ["pod", "gateway"])
def test_rules_and_settings_of_ones_own_reach_the_sidecar_and_the_gateway(overlay: str, tmp_path: Path) -> None:
    """The components mount what they make, wherever the container is; the settings are a valid file."""
    more = ("settings",) if overlay == "pod" else ("settings", "policies")
    made = with_components(tmp_path, overlay, *more)
    pod = next(one for one in made if one["kind"] == "Deployment")["spec"]["template"]["spec"]
    sidecar = next(one for one in [*pod.get("initContainers", []), *pod["containers"]] if one["name"] == NAME)
    assert sidecar["args"] == container(Options(config_map="x"))["args"]
    volumes = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    assert volumes == {one["metadata"]["name"] for one in made if one["kind"] == "ConfigMap"}
    mounted = {mount["mountPath"] for mount in sidecar["volumeMounts"]}
    assert {"/etc/prompt-sidecar/config", "/etc/prompt-sidecar/policies"} <= mounted
    assert config.load(K8S / "components" / "settings" / "config.yaml", {}).mode == "monitor"


@pytest.mark.parametrize("overlay", ["pod", "gateway"])
def test_doctor_sees_that_the_shipped_settings_only_monitor(overlay: str, tmp_path: Path) -> None:
    """`components/settings` begins in monitor mode, in a ConfigMap among the objects."""
    objects = with_components(tmp_path, overlay, "settings")
    maps = {one["metadata"]["name"]: one for one in objects if one["kind"] == "ConfigMap"}
    (made,) = (one for one in objects if one["kind"] == "Deployment")
    found = {finding.text for finding in inspect(made["spec"]["template"], maps)}
    assert "mode: monitor forwards everything, attacks too" in found
    assert "its settings are those of the ConfigMap prompt-sidecar-config and its variables" in found


def test_the_autoscaler_alone_decides_the_number_of_replicas() -> None:
    """Every apply would set it back otherwise."""
    (gateway,) = (one for one in built("gateway") if one["kind"] == "Deployment")
    (scaler,) = (one for one in built("gateway") if one["kind"] == "HorizontalPodAutoscaler")
    assert ("replicas" in gateway["spec"], scaler["spec"]["minReplicas"]) == (False, 2)


def test_an_application_keeps_its_longer_grace_period(tmp_path: Path) -> None:
    """The sidecar shares it, and takes nothing of it away."""
    shutil.copytree(K8S, tmp_path / "k8s")
    application = tmp_path / "k8s" / "base" / "application.yaml"
    text = application.read_text("utf-8").replace("GracePeriodSeconds: 90", "GracePeriodSeconds: 300")
    application.write_text(text, "utf-8")
    (made,) = (one for one in kustomized(tmp_path / "k8s" / "overlays" / "pod") if one["kind"] == "Deployment")
    assert made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 300


def test_a_component_that_a_comment_of_the_base_names_changes_the_pods_sidecar() -> None:
    """One for the gateway alone would be added without an effect: only native sidecars are in pods."""
    named = {
        name
        for path in (K8S / "base").glob("*.yaml")
        for name in re.findall(r"components/([\w-]+)", path.read_text("utf-8"))
    }
    assert "upstream-key" in named
    for name in named:
        assert "initContainers" in (K8S / "components" / name / "kustomization.yaml").read_text("utf-8"), name


def test_the_guide_says_what_the_webhook_needs_first() -> None:
    """Its image, and the Secret of its arguments in each namespace whose pods it changes."""
    guide = (
        (K8S.parent / "docs" / "kubernetes.md").read_text("utf-8").partition("### The webhook")[2].partition("### ")[0]
    )
    webhook = next(one for one in built("injector") if one["kind"] == "Deployment")
    args = webhook["spec"]["template"]["spec"]["containers"][0]["args"]
    secret = args[args.index("--secret") + 1]
    assert f"create secret generic {secret} --from-file=upstream-key" in guide
    assert guide.index("Set the image in") < guide.index("every namespace") < guide.index("kubectl apply -k")


def test_the_certificate_is_the_one_that_the_webhook_and_its_configuration_name() -> None:
    """Its Secret is mounted, its name is in the annotation, and its host is the Service's."""
    objects = built("injector")
    (certificate,) = (one for one in objects if one["kind"] == "Certificate")
    (hook,) = (one for one in objects if one["kind"] == "MutatingWebhookConfiguration")
    (pod,) = pods("injector")
    assert {"secretName": certificate["spec"]["secretName"]} in [volume.get("secret") for volume in pod["volumes"]]
    place = f"{certificate['metadata']['namespace']}/{certificate['metadata']['name']}"
    assert hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == place
    service = hook["webhooks"][0]["clientConfig"]["service"]
    assert certificate["spec"]["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]


def test_the_monitors_find_what_is_injected_and_the_webhook() -> None:
    """In every namespace, by labels and ports that the manifests have; the gateway's finds the gateway."""
    monitors = {one["metadata"]["name"]: one["spec"] for one in built("monitoring") if one["kind"] == "PodMonitor"}
    assert all(monitor["namespaceSelector"] == {"any": True} for monitor in monitors.values())
    pod = inject(workload("Deployment"), Options())["spec"]["template"]
    selected = monitors["prompt-sidecar-pods"]["selector"]["matchLabels"].items()
    assert selected <= pod["metadata"]["labels"].items()
    (webhook,) = (one for one in built("injector") if one["kind"] == "Deployment")
    template = webhook["spec"]["template"]
    assert monitors["prompt-sidecar-webhook"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    assert monitors["prompt-sidecar-webhook"]["podMetricsEndpoints"][0]["port"] in ports
    assert [one["metadata"]["name"] for one in built("gateway") if one["kind"] == "PodMonitor"] == [NAME]


@pytest.mark.parametrize(
    ("kind", "controller", "job"),
    [("ReplicaSet", "shop-7d9f8b6c5", "shop"), ("StatefulSet", "shop-db", "shop-db"), ("Job", "train-1", "train-1")],
)
def test_the_job_of_a_pod_is_its_workload(kind: str, controller: str, job: str) -> None:
    """By the rules of relabeling: anchored, the last that matches counts."""
    monitors = {one["metadata"]["name"]: one["spec"] for one in built("monitoring") if one["kind"] == "PodMonitor"}
    labels = {"__meta_kubernetes_pod_controller_kind": kind, "__meta_kubernetes_pod_controller_name": controller}
    found = ""
    for rule in monitors["prompt-sidecar-pods"]["podMetricsEndpoints"][0]["relabelings"]:
        value = ";".join(labels[name] for name in rule["sourceLabels"])
        found = match[1] if (match := re.fullmatch(rule["regex"], value)) else found
    assert found == job


def test_alerts_and_dashboard_of_the_cluster_are_those_of_the_documentation() -> None:
    """`python -m tools.reference` writes the copies: run it after a change of the originals."""
    for path, text in monitoring.files().items():
        assert path.read_text("utf-8") == text
    (rule,) = (one for one in built("monitoring") if one["kind"] == "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((K8S.parent / "docs" / "observability" / "alerts.yaml").read_text("utf-8"))
