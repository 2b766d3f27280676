"""The sidecar in a pod specification: its container, its volumes, and the application's base URL.

The container equals the one in `k8s/base`, which gives the reason for every value; a test compares them.
"""

from __future__ import annotations

from copy import deepcopy
from urllib.parse import urlsplit

from sidecar.config.sources import ENV_PREFIX, variable
from sidecar.errors import InjectError
from sidecar.kubernetes.base_urls import point
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.spec import NAME, OURS, PORTS, REDIRECT, Spec, applications, items, sidecar_of, used_ports

USER = 65532
REDIRECTING_USER = 61532
"""The sidecar's user with redirection: its connections are exempt, and 65532 is used by many applications."""
GRACE = 90
"""Seconds of a pod's termination grace period: more than `drain.timeout`, so that streams may finish."""
SECRETS, POLICIES, DATA = f"/run/secrets/{NAME}", f"/etc/{NAME}/policies", f"/var/lib/{NAME}"
CONFIG = f"/etc/{NAME}/config"
_THREADS = "LAYERS__SEMANTIC__THREADS"


def with_sidecar(spec: Spec, options: Options, ports: tuple[int, int] | None = None) -> Spec:
    """A copy of the pod specification with the sidecar in it, on these ports, or else on free ones.

    Raises `InjectError`.
    """
    pod = deepcopy(spec)
    if problem := _problem(pod):
        raise InjectError("the sidecar cannot be injected", [problem])
    ports = ports or free_ports(pod)
    others = [item for item in items(pod, "initContainers") if item.get("name") not in OURS]
    first = [redirection(options, ports)] if options.redirect else []
    pod["initContainers"] = [*first, container(options, ports), *others]
    if options.redirect:
        _only_ours_goes_through(pod)
    new = {item["name"]: item for item in volumes(options)}
    # Those of an earlier injection keep their places.
    existing = [item for item in items(pod, "volumes") if item.get("name") in new or not is_our_volume(item)]
    pod["volumes"] = [*[new.pop(item.get("name"), item) for item in existing], *new.values()]
    grace = pod.get("terminationGracePeriodSeconds", 30)
    pod["terminationGracePeriodSeconds"] = max(grace, GRACE) if isinstance(grace, int) else grace
    if options.app_env:
        for app in applications(pod):
            point(app, ports[0])
    return pod


def _problem(spec: Spec) -> str | None:
    """Why a pod cannot have a sidecar."""
    if spec.get("hostNetwork"):
        return "hostNetwork: its ports would be the node's"
    if "windows" in {(spec.get("os") or {}).get("name"), (spec.get("nodeSelector") or {}).get("kubernetes.io/os")}:
        return "the pod is for Windows, and the sidecar's image for Linux"
    occupied = [str(item["name"]) for item in items(spec, "volumes") if is_our_volume(item)]
    return f"the pod has a volume {occupied[0]} of its own" if occupied and not has_sidecar(spec) else None


def _only_ours_goes_through(spec: Spec) -> None:
    """No application may run as the user that is exempt from redirection."""
    for item in [spec, *items(spec, "containers"), *items(spec, "initContainers")]:
        context = item.get("securityContext") or {}
        if item.get("name") != NAME and isinstance(context, dict) and context.get("runAsUser") == REDIRECTING_USER:
            raise InjectError("the sidecar cannot be injected", [f"redirect: user {REDIRECTING_USER} is the sidecar's"])


def has_sidecar(spec: Spec) -> bool:
    """Whether a container or init container of our name exists."""
    return sidecar_of(spec) is not None


def is_our_volume(volume: Spec) -> bool:
    """Whether it has the name of one that an injection makes."""
    return volume.get("name") in {f"{NAME}-{name}" for name in ("data", "secrets", "policies", "config")}


def free_ports(spec: Spec, first: int | None = None) -> tuple[int, int]:
    """The first pair of ports that the pod's containers leave free, or the pair that begins with `first`.

    Raises `InjectError` if it is not free, or if there is none.
    """
    occupied = {*used_ports(spec)}
    if first is not None:
        if taken := occupied & {first, first + 1}:
            raise InjectError("the sidecar cannot be injected", [f"port {min(taken)} is another container's"])
        return first, first + 1
    for pair in PORTS:
        if not occupied & set(pair):
            return pair
    raise InjectError("the sidecar cannot be injected", ["all of its ports are occupied by other containers"])


def container(options: Options, ports: tuple[int, int] = PORTS[0]) -> Spec:
    """The native sidecar container."""
    user = REDIRECTING_USER if options.redirect else USER
    return {
        "name": NAME,
        "image": options.image,
        "restartPolicy": "Always",
        "args": ["serve", "--no-first-key", *(["--config", f"{CONFIG}/config.yaml"] if options.config_map else [])],
        "env": _env(options, ports),
        "ports": [{"name": "sidecar-admin", "containerPort": ports[1]}],
        "startupProbe": _probe("/startup", periodSeconds=1, failureThreshold=options.startup, timeoutSeconds=2),
        "livenessProbe": _probe("/health", periodSeconds=10, failureThreshold=3, timeoutSeconds=5),
        "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi", "ephemeral-storage": "64Mi"},
            "limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"},
        },
        "securityContext": {"runAsNonRoot": True, **_confined(user)},
        "volumeMounts": _mounts(options),
    }


def redirection(options: Options, ports: tuple[int, int] = PORTS[0]) -> Spec:
    """The init container that redirects the pod's plain HTTP for the upstream into the sidecar."""
    return {
        "name": REDIRECT,
        "image": options.image,
        "workingDir": "/",
        "args": ["redirect", "--uid", str(REDIRECTING_USER)],
        "env": _variables(_listen_variables(options, ports)),
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {"runAsNonRoot": False, **_confined(0, "NET_ADMIN")},
    }


def _confined(user: int, *capabilities: str) -> Spec:
    """A security context with that user, these capabilities and no privilege escalation."""
    added = {"add": list(capabilities)} if capabilities else {}
    return {
        "runAsUser": user,
        "runAsGroup": user,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], **added},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _probe(path: str, **thresholds: int) -> Spec:
    return {"httpGet": {"path": path, "port": "sidecar-admin"}, **thresholds}


def _env(options: Options, ports: tuple[int, int]) -> list[Spec]:
    plain = {
        "LISTEN__HOST": "127.0.0.1",
        **_listen_variables(options, ports),
        "STORE__URL": f"sqlite:///{DATA}/sidecar.db",
        "LOG__FORMAT": "json",
        "LOG__RETENTION": "24h",
        "ADMIN__HOST": "0.0.0.0",  # noqa: S104 - probes come from the node; the proxy and scan API stay on loopback
        "DRAIN__TIMEOUT": "60s",
    }
    if options.secret:
        plain["UPSTREAM__API_KEY_FILE"] = f"{SECRETS}/upstream-key"
    if options.policies:
        plain["POLICIES"] = f"[shipped, {POLICIES}]"
    if ports != PORTS[0]:
        plain["ADMIN__PORT"] = str(ports[1])
    plain |= {variable(key).removeprefix(ENV_PREFIX): value for key, value in options.settings}
    if _THREADS in plain:
        return _variables(plain)
    # There is no CPU limit, so threads follow the CPU request, rounded up to whole processors.
    threads = {"resourceFieldRef": {"containerName": NAME, "resource": "requests.cpu"}}
    return [*_variables(plain), {"name": ENV_PREFIX + _THREADS, "valueFrom": threads}]


def _listen_variables(options: Options, ports: tuple[int, int]) -> dict[str, str]:
    """Settings that sidecar and redirection share: the upstream, the port, and the accepted hosts."""
    variables = {"UPSTREAM__URL": options.upstream}
    if ports != PORTS[0]:
        variables["LISTEN__PORT"] = str(ports[0])
    if options.redirect:
        variables["LISTEN__HOSTS"] = f"[{', '.join(_names(urlsplit(options.upstream).hostname or ''))}]"
    return variables


def _names(host: str) -> list[str]:
    """The host; for a service in the cluster, every form of its name."""
    name = host.removesuffix(".cluster.local").removesuffix(".svc")
    in_cluster = host != name and name.count(".") == 1
    return [name, f"{name}.svc", f"{name}.svc.cluster.local"] if in_cluster else [host]


def _variables(settings: dict[str, str]) -> list[Spec]:
    return [{"name": ENV_PREFIX + name, "value": value} for name, value in settings.items()]


def _mounts(options: Options) -> list[Spec]:
    mounts: list[Spec] = [{"name": f"{NAME}-data", "mountPath": DATA}]
    if options.secret:
        mounts.append({"name": f"{NAME}-secrets", "mountPath": SECRETS, "readOnly": True})
    if options.policies:
        mounts.append({"name": f"{NAME}-policies", "mountPath": POLICIES, "readOnly": True})
    if options.config_map:
        mounts.append({"name": f"{NAME}-config", "mountPath": CONFIG, "readOnly": True})
    return mounts


def volumes(options: Options) -> list[Spec]:
    """The volumes that the container mounts."""
    mounted: list[Spec] = [{"name": f"{NAME}-data", "emptyDir": {"sizeLimit": "1Gi"}}]
    if options.secret:
        mounted.append({"name": f"{NAME}-secrets", "secret": {"secretName": options.secret}})
    if options.policies:
        mounted.append({"name": f"{NAME}-policies", "configMap": {"name": options.policies}})
    if options.config_map:
        mounted.append({"name": f"{NAME}-config", "configMap": {"name": options.config_map}})
    return mounted
