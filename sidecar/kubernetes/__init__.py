"""Injects the sidecar into Kubernetes objects: `sidecar inject` for manifests, the admission webhook for a cluster.

Pure functions from objects to objects; both ways give the same result, and injection is idempotent.
"""

from __future__ import annotations

from sidecar.kubernetes.json_patch import json_patch
from sidecar.kubernetes.objects import inject, inject_all
from sidecar.kubernetes.options import Options, with_annotations

__all__ = ["Options", "inject", "inject_all", "json_patch", "with_annotations"]
