"""The alerts and the dashboard as a cluster takes them: copies of docs/observability in k8s/overlays/monitoring.

Kustomize reads no files outside its folders, so they are written by `python -m tools.reference`.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, TARGET = ROOT / "docs" / "observability", ROOT / "k8s" / "overlays" / "monitoring"
HEAD = """# Written by `python -m tools.reference` from docs/observability/alerts.yaml; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: prompt-sidecar}
spec:
"""


def files() -> dict[Path, str]:
    """Every file with its text."""
    alerts = (SOURCE / "alerts.yaml").read_text("utf-8")
    rules = "".join(f"  {line}" if line.strip() else line for line in alerts.splitlines(keepends=True))
    return {
        TARGET / "alerts.yaml": HEAD + rules,
        TARGET / "dashboard.json": (SOURCE / "dashboard.json").read_text("utf-8"),
    }
