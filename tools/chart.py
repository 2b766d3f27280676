"""Makes the templates of charts/prompt-sidecar from the overlays of k8s/, so that there is one source of every value.

An object of an overlay becomes a template: values that an operator chooses are replaced by expressions, the rest stays.
With the values of `tests/helm/overlay.yaml` the chart renders to the overlays again; a test compares them.

Usage: python -m tools.chart      needs kubectl
"""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tools import chart_schema, monitoring

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "prompt-sidecar"
SCHEMA = CHART / "values.schema.json"
HEAD = "{{- /* Written by `python -m tools.chart` from k8s/; do not edit. */ -}}\n"
NAMESPACE = "{{ .Release.Namespace }}"
SERVE = "serve, --no-first-key"
CONFIG = "/etc/prompt-sidecar/config"
EXTRA_SETTINGS = """{{- range $key, $value := .Values.gateway.settings }}
- name: SIDECAR__{{ $key | upper | replace "." "__" }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- if and .Values.gateway.policies (not (hasKey .Values.gateway.settings "policies")) }}
- name: SIDECAR__POLICIES
  value: "[shipped, /etc/prompt-sidecar/policies]"
{{- end }}"""
PREFIX = "SIDECAR__"
MOUNTS = """{{- if .Values.gateway.config }}
- {name: prompt-sidecar-config, mountPath: /etc/prompt-sidecar/config, readOnly: true}
{{- end }}
{{- if .Values.gateway.policies }}
- {name: prompt-sidecar-policies, mountPath: /etc/prompt-sidecar/policies, readOnly: true}
{{- end }}"""
VOLUMES = """{{- if .Values.gateway.config }}
- {name: prompt-sidecar-config, configMap: {name: prompt-sidecar-config}}
{{- end }}
{{- if .Values.gateway.policies }}
- {name: prompt-sidecar-policies, configMap: {name: prompt-sidecar-policies}}
{{- end }}"""
CONFIG_MAPS = """{{- if .Values.gateway.config }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: prompt-sidecar-config}
data:
  config.yaml: {{ toJson .Values.gateway.config | quote }}
{{- end }}
{{- if .Values.gateway.policies }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: prompt-sidecar-policies}
data: {{ toJson .Values.gateway.policies }}
{{- end }}
"""
POD_FIELDS = ("nodeSelector", "tolerations", "affinity")
"""Values of a section that become fields of its pod's specification, under the same name."""
POD_LISTS = {"env": "extraEnv", "volumeMounts": "extraVolumeMounts"}
"""Lists of a container, and the value of a section that adds entries to each."""
LABELS = "{{- with .Values.monitoring.labels }}\nlabels: {{ toJson . }}\n{{- end }}"
AUTHORITY = """{{- if not .Values.webhook.certManager }}
caBundle: {{ required "webhook.caBundle is empty: without cert-manager (webhook.certManager=false) it is \
the certificate, PEM in base64, of the authority that signed the Secret prompt-sidecar-webhook-tls" \
.Values.webhook.caBundle }}
{{- end }}"""
CONDITIONS = {
    "PodMonitor": "or .Values.gateway.podMonitor .Values.monitoring.enabled",
    "NetworkPolicy": ".Values.gateway.networkPolicy",
    "Issuer": ".Values.webhook.certManager",
    "Certificate": ".Values.webhook.certManager",
}
"""The value that decides whether an object is made, by its kind; other kinds always are."""
Object = dict[str, Any]


class Template:
    """One object with expressions in place of values."""

    def __init__(self, document: Object) -> None:
        self.document = document
        self._expressions: list[str] = []

    def put(self, holder: Any, key: Any, expression: str) -> None:
        """Replace a value by an expression, which is one line."""
        holder[key] = self._token(expression)

    def append(self, items: list[Any], block: str) -> None:
        """Add a block of lines as the last entry of a list."""
        items.append(self._token(block))

    def extend(self, mapping: Object, block: str) -> None:
        """Add a block of lines, which are entries, at the end of a mapping."""
        mapping[self._token(block)] = None

    def _token(self, expression: str) -> str:
        self._expressions.append(expression)
        return f"@{len(self._expressions) - 1}@"

    def text(self) -> str:
        """The object as a template."""
        lines = yaml.safe_dump(self.document, sort_keys=False, width=1000).splitlines()
        return "".join(f"{line}\n" for text in lines for line in self._expanded(text))

    def _expanded(self, line: str) -> Iterator[str]:
        for number, expression in enumerate(self._expressions):
            token = f"'@{number}@'"
            if line.strip() in {f"- {token}", f"{token}: null"}:
                indent = line[: len(line) - len(line.lstrip())]
                yield from (indent + part for part in expression.splitlines())
                return
            line = line.replace(token, expression)
        yield line


def overlay(name: str) -> list[Object]:
    """The objects of an overlay."""
    command = ["kubectl", "kustomize", str(ROOT / "k8s" / "overlays" / name)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=100)  # noqa: S603
    return list(yaml.safe_load_all(done.stdout))


def gateway() -> str:
    """The gateway's template."""
    return _file("gateway", [_gateway_object(Template(one)) for one in overlay("gateway")], CONFIG_MAPS)


def _gateway_object(template: Template) -> str:
    document = template.document
    if document["kind"] == "Deployment":
        pod = document["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        template.put(container, "image", "{{ .Values.image }}")
        template.put(
            container,
            "args",
            f"[{SERVE}{{{{ if .Values.gateway.config }}}}, --config, {CONFIG}/config.yaml{{{{ end }}}}]",
        )
        template.put(container, "resources", "{{ toJson .Values.gateway.resources }}")
        upstream = next(entry for entry in container["env"] if entry["name"] == "SIDECAR__UPSTREAM__URL")
        template.put(upstream, "value", "{{ .Values.gateway.upstream | quote }}")
        container["env"] = list(_replaceable(template, container["env"]))
        for volume in pod["volumes"]:
            if "secret" in volume:
                value = "storesSecret" if volume["name"] == "stores" else "secret"
                template.put(volume["secret"], "secretName", f"{{{{ .Values.gateway.{value} }}}}")
        template.append(container["env"], EXTRA_SETTINGS)
        template.append(container["volumeMounts"], MOUNTS)
        template.append(pod["volumes"], VOLUMES)
        _add_pod_values(template, "gateway")
    elif document["kind"] == "HorizontalPodAutoscaler":
        for name in ("minReplicas", "maxReplicas"):
            template.put(document["spec"], name, f"{{{{ .Values.gateway.{name} }}}}")
    elif document["kind"] == "PodMonitor":
        template.extend(document["metadata"], LABELS)
    elif document["kind"] == "NetworkPolicy":
        labels = document["spec"]["ingress"][-1]["from"][0]["namespaceSelector"]["matchLabels"]
        template.put(labels, "kubernetes.io/metadata.name", "{{ .Values.monitoring.namespace }}")
        template.append(document["spec"]["egress"], "{{- range .Values.gateway.egress }}\n- {{ toJson . }}\n{{- end }}")
    return _conditional(template)


def _replaceable(template: Template, variables: Iterable[Object]) -> Iterator[Any]:
    """Each variable of a setting only where `gateway.settings` does not set it: a server refuses a name twice."""
    for variable in variables:
        setting = variable["name"].removeprefix(PREFIX).lower().replace("__", ".")
        around: list[Any] = []
        template.append(around, f'{{{{- if not (hasKey .Values.gateway.settings "{setting}") }}}}')
        template.append(around, "{{- end }}")
        yield from (around[0], variable, around[1])


def _add_pod_values(template: Template, section: str) -> None:
    """What every chart lets an operator add to a pod."""
    pod = template.document["spec"]["template"]
    spec, values = pod["spec"], f".Values.{section}"
    labels = (
        f"{{{{- range $key, $value := {values}.podLabels }}}}\n{{{{ $key }}}}: {{{{ $value | quote }}}}\n{{{{- end }}}}"
    )
    template.extend(pod["metadata"]["labels"], labels)
    template.extend(pod["metadata"], _optional("annotations", f"{values}.podAnnotations"))
    template.extend(spec, _optional("imagePullSecrets", ".Values.imagePullSecrets"))
    template.extend(spec, _optional("serviceAccountName", f"{values}.serviceAccount.name"))
    for name in POD_FIELDS:
        template.extend(spec, _optional(name, f"{values}.{name}"))
    for name, value in POD_LISTS.items():
        template.append(spec["containers"][0][name], _further(f"{values}.{value}"))
    template.append(spec["volumes"], _further(f"{values}.extraVolumes"))


def _optional(name: str, value: str) -> str:
    return f"{{{{- with {value} }}}}\n{name}: {{{{ toJson . }}}}\n{{{{- end }}}}"


def _further(values: str) -> str:
    return f"{{{{- range {values} }}}}\n- {{{{ toJson . }}}}\n{{{{- end }}}}"


def webhook() -> str:
    """The admission webhook's template."""
    made = [_webhook_object(Template(one)) for one in overlay("injector") if one["kind"] != "Namespace"]
    return _file("webhook", made)


def _webhook_object(template: Template) -> str:
    document = template.document
    if "namespace" in document["metadata"]:
        template.put(document["metadata"], "namespace", NAMESPACE)
    if document["kind"] == "Deployment":
        (container,) = document["spec"]["template"]["spec"]["containers"]
        template.put(document["spec"], "replicas", "{{ .Values.webhook.replicas }}")
        template.put(container, "image", "{{ .Values.image }}")
        arguments = "[webhook, --image, {{ .Values.image }}{{ range .Values.webhook.args }}, {{ . | quote }}{{ end }}]"
        template.put(container, "args", arguments)
        template.put(container, "resources", "{{ toJson .Values.webhook.resources }}")
        _add_pod_values(template, "webhook")
    elif document["kind"] == "Certificate":
        document["spec"]["dnsNames"] = [f"prompt-sidecar-webhook.{NAMESPACE}.svc"]
    elif document["kind"] == "MutatingWebhookConfiguration":
        (hook,) = document["webhooks"]
        (annotation,) = document["metadata"].pop("annotations")
        lines = ["annotations:", f"  {annotation}: {NAMESPACE}/prompt-sidecar-webhook"]
        template.extend(
            document["metadata"], "\n".join(["{{- if .Values.webhook.certManager }}", *lines, "{{- end }}"])
        )
        template.put(hook["clientConfig"]["service"], "namespace", NAMESPACE)
        (kept_out,) = hook["namespaceSelector"]["matchExpressions"]
        template.put(kept_out, "values", f"[{NAMESPACE}, kube-system]")
        template.extend(hook["clientConfig"], AUTHORITY)
    return _conditional(template)


def observability() -> str:
    """The template of PodMonitors, alerts and dashboard. The last two hold braces of their own: they are files."""
    monitors = [_labelled(Template(one)) for one in overlay("monitoring") if one["kind"] == "PodMonitor"]
    rule = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: prompt-sidecar\n"
    rule += f"  namespace: monitoring\n{textwrap.indent(LABELS, '  ')}\n"
    rule += 'spec:\n{{ .Files.Get "files/alerts.yaml" | indent 2 }}\n'
    board = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: prompt-sidecar-dashboard\n  namespace: monitoring\n"
    board += "  labels:\n    grafana_dashboard: '1'\ndata:\n"
    board += '  dashboard.json: {{ .Files.Get "files/dashboard.json" | toJson }}\n'
    text = "---\n".join([*monitors, rule, board]).replace(
        "namespace: monitoring", "namespace: {{ .Values.monitoring.namespace }}"
    )
    return HEAD + "{{- if .Values.monitoring.enabled }}\n" + text + "{{- end }}\n"


def _labelled(template: Template) -> str:
    template.extend(template.document["metadata"], LABELS)
    return template.text()


def _conditional(template: Template) -> str:
    condition = CONDITIONS.get(template.document["kind"])
    if (
        template.document["metadata"]["name"] == "prompt-sidecar-webhook"
        and template.document["kind"] == "NetworkPolicy"
    ):
        condition = None
    return f"{{{{- if {condition} }}}}\n{template.text()}{{{{- end }}}}\n" if condition else template.text()


def _file(section: str, objects: Iterable[str], more: str = "") -> str:
    body = "---\n".join(objects) + more
    return f"{HEAD}{{{{- if .Values.{section}.enabled }}}}\n{body}{{{{- end }}}}\n"


def files() -> dict[Path, str]:
    """Every written file with its text."""
    copies = {
        CHART / "files" / name: (monitoring.SOURCE / name).read_text("utf-8")
        for name in ("alerts.yaml", "dashboard.json")
    }
    return {
        CHART / "templates" / "gateway.yaml": gateway(),
        CHART / "templates" / "webhook.yaml": webhook(),
        CHART / "templates" / "monitoring.yaml": observability(),
        SCHEMA: chart_schema.written(SCHEMA.read_text("utf-8")),
        **copies,
    }


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
