"""Answers an AdmissionReview of the API server with the patch from `inject`.

A pod that cannot take the sidecar as requested is refused with the reason; one that requests none is allowed unchanged.
"""

from __future__ import annotations

import base64
from typing import Any

from sidecar.errors import BodyError, InjectError
from sidecar.kubernetes.json_patch import json_patch
from sidecar.kubernetes.objects import Request, injection
from sidecar.util import json

Review = dict[str, Any]
MAX_WARNING, MAX_WARNINGS = 250, 10
"""Characters and number of warnings: the API server cuts them at 256 and at 4096 in all."""


def answer(request: Review, terms: Request, *, own_namespace: str | None = None) -> Review:
    """The review with the response to a request."""
    response: Review = {"uid": request["uid"], "allowed": True}
    subject = request.get("object")
    at_home = own_namespace is not None and request.get("namespace") == own_namespace
    if isinstance(subject, dict) and not at_home:
        response |= _decide(subject, request, terms)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def facts(request: Review, response: Review) -> dict[str, object]:
    """What a log line needs to find the object again, and why it was refused."""
    subject = request.get("object")
    metadata = subject.get("metadata") if isinstance(subject, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    owners = metadata.get("ownerReferences")
    owner = owners[0] if isinstance(owners, list) and owners and isinstance(owners[0], dict) else None
    found = {
        "uid": request["uid"],
        "operation": request.get("operation"),
        "namespace": request.get("namespace"),
        "name": request.get("name") or metadata.get("name") or metadata.get("generateName"),
        "owner": f"{owner.get('kind')}/{owner.get('name')}" if owner else None,
        "reason": " ".join(str((response.get("status") or {}).get("message") or "").split()),
        "warnings": response.get("warnings"),
    }
    return {name: value for name, value in found.items() if value}


def read(raw: bytes) -> Review:
    """The request of a review. Raises `BodyError` if it is not an AdmissionReview in version 1."""
    try:
        review = json.loads(raw)
    except json.DecodeError:
        raise BodyError("malformed", "The body is not JSON.") from None
    if not isinstance(review, dict) or review.get("apiVersion") != "admission.k8s.io/v1":
        raise BodyError("malformed", "The body is no AdmissionReview of admission.k8s.io/v1.")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise BodyError("malformed", "The review has no request with a uid.")
    return request


def _decide(subject: Review, request: Review, terms: Request) -> Review:
    kind = request.get("kind")
    # Objects lack their kind if the client did not send it; the request always names it.
    typed = {**subject, "kind": subject.get("kind") or (kind.get("kind") if isinstance(kind, dict) else None)}
    if request.get("operation", "CREATE") not in ({"CREATE"} if typed["kind"] == "Pod" else {"CREATE", "UPDATE"}):
        return {}  # the containers of an existing pod are immutable
    try:
        changed, notes = injection(typed, terms)
    except InjectError as error:
        return {"allowed": False, "status": {"code": 422, "message": str(error), "reason": "Invalid"}}
    patch = json_patch(typed, changed)
    if not patch:
        return {}
    warnings = {"warnings": [f"prompt-sidecar: {note}"[:MAX_WARNING] for note in notes[:MAX_WARNINGS]]} if notes else {}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch)).decode(), **warnings}
