"""Twin of kubernetes/admission_review.py: what is no review; real ones are in kubernetes/test_webhook.py."""

from __future__ import annotations

import pytest

from sidecar.errors import BodyError
from sidecar.kubernetes.admission_review import answer, facts, read
from sidecar.kubernetes.objects import Request
from sidecar.kubernetes.options import Options


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "1"}}',
        b'{"apiVersion": "admission.k8s.io/v1"}',
        b'{"apiVersion": "admission.k8s.io/v1", "request": []}',
        b'{"apiVersion": "admission.k8s.io/v1", "request": {"uid": 7}}',
    ],
)
def test_what_is_no_review_is_refused(raw: bytes) -> None:
    """A 400, so that the API server's `failurePolicy` decides."""
    with pytest.raises(BodyError):
        read(raw)


def test_a_log_line_says_which_pod_of_whom_was_refused_and_why() -> None:
    """The namespace, the generated name, the owner, the reason and the review's uid."""
    pod = {
        "kind": "Pod",
        "metadata": {
            "generateName": "shop-7d9-",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "shop-7d9"}],
            "labels": {"prompt-sidecar/inject": "true"},
            "annotations": {"prompt-sidecar/upstream-ulr": "http://x"},
        },
        "spec": {"containers": [{"name": "a"}]},
    }
    request = {"uid": "7", "operation": "CREATE", "namespace": "team", "object": pod}
    found = facts(request, answer(request, Request(Options(), default=False))["response"])
    wanted = {
        "uid": "7",
        "operation": "CREATE",
        "namespace": "team",
        "name": "shop-7d9-",
        "owner": "ReplicaSet/shop-7d9",
    }
    assert wanted.items() <= found.items()
    assert "did you mean prompt-sidecar/upstream-url?" in str(found["reason"])
    assert str(found["reason"]).isprintable()
