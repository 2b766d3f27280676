"""Twin of sidecar/decision_log/receipts.py."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sidecar.decision_log.receipts import receipt, verified
from sidecar.types import Action, Decision, LayerName, Verdict
from sidecar.util.signatures import encode, read_key

SIGNER = read_key(b"s" * 32)
VERDICT = Verdict(0.91, Action.BLOCK, (), 3, LayerName.RULES)
DECISION = Decision(
    id="dec_1",
    at=datetime(2026, 5, 1, tzinfo=UTC),
    entrypoint="api",
    route="/",
    verdict=VERDICT,
    action="block",
    status=200,
    key_id=None,
    model=None,
    length=5,
    segments=1,
    digest="1.ab",
)


def test_a_receipt_says_what_was_decided() -> None:
    """The decision's id, time, action, score and digest, and no text; one word that a header can hold."""
    text = receipt(SIGNER, DECISION)
    assert verified(SIGNER, text) == {
        "v": 1,
        "id": "dec_1",
        "at": "2026-05-01T00:00:00+00:00",
        "action": "block",
        "verdict": "block",
        "score": 0.91,
        "digest": "1.ab",
        "key": SIGNER.name,
    }
    assert text.isascii()
    assert " " not in text


@pytest.mark.parametrize("text", ["", ".", "a.b", "\u00e9.x", encode(b"{}") + ".", encode(b"{}") + "." + encode(b"x")])
def test_what_the_key_did_not_sign_is_none(text: str) -> None:
    """Nor is a receipt of another key, or one with another payload."""
    genuine = receipt(SIGNER, DECISION)
    other = read_key(b"t" * 32)
    assert verified(SIGNER, text) is None
    assert verified(other, genuine) is None
    assert verified(SIGNER, f"{encode(b'{}')}.{genuine.partition('.')[2]}") is None
