"""Receipts of decisions: a signed line that proves what was decided about which text, and when.

`PAYLOAD.SIGNATURE`, both base64 for URLs. The payload is JSON: `id` of the decision, `at` (UTC), `action`, `verdict`
(the action of the verdict), `score`, `digest` of the text as in the scan log, `key` that signs.
"""

from __future__ import annotations

from typing import Any

from sidecar.types import Decision
from sidecar.util import json
from sidecar.util.signatures import Signer, decode, encode

HEADER = "x-sidecar-receipt"
VERSION = 1


def receipt(signer: Signer, decision: Decision) -> str:
    """The receipt of a decision; empty if the key signs nothing."""
    if signer.sign is None:
        return ""
    verdict = decision.verdict
    payload = json.dumps(
        {
            "v": VERSION,
            "id": decision.id,
            "at": decision.at.isoformat(),
            "action": decision.action,
            "verdict": verdict.action,
            "score": verdict.risk_score,
            "digest": decision.digest,
            "key": signer.name,
        }
    )
    return f"{encode(payload)}.{encode(signer.sign(payload))}"


def verified(signer: Signer, text: str) -> dict[str, Any] | None:
    """The payload of a receipt; None unless this key signed it."""
    payload, _, signature = text.strip().partition(".")
    try:
        content = decode(payload)
        is_genuine = signer.verify(content, decode(signature))
        return dict(json.loads(content)) if is_genuine else None
    except (ValueError, TypeError):
        return None
