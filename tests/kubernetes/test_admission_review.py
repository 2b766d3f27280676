"""Twin of kubernetes/admission_review.py: what is no review; real ones are in kubernetes/test_webhook.py."""

from __future__ import annotations

import pytest

from sidecar.errors import BodyError
from sidecar.kubernetes.admission_review import answer
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
        answer(raw, Request(Options()))
