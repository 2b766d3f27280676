"""Injects the sidecar into Kubernetes objects: `sidecar inject` for manifests, the admission webhook for a cluster.

Pure functions from objects to objects; both ways give the same result, and injection is idempotent. Import the modules:
a server, whose command line has these commands, loads none but `options` and `pod_settings`.
"""
