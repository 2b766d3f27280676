"""Puts the sidecar into Kubernetes objects: `sidecar inject` for manifests, the admission webhook for a cluster.

Pure functions from objects to objects; both ways give the same result, and giving it twice changes nothing more.
"""

from __future__ import annotations

from sidecar.inject.objects import inject, inject_all
from sidecar.inject.options import Options, with_annotations
from sidecar.inject.patch import json_patch

__all__ = ["Options", "inject", "inject_all", "json_patch", "with_annotations"]
