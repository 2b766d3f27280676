"""Twin of sidecar/config/signing.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from pydantic import ValidationError
from util.test_signatures import PEM, PUBLIC

from sidecar.config import Audit
from sidecar.config.signing import read_signer
from sidecar.errors import ConfigError


def test_without_a_file_nothing_is_signed(tmp_path: Path) -> None:
    """A secret of 32 bytes is enough; receipts without a key are an error."""
    assert read_signer(Audit()) is None
    (tmp_path / "key").write_bytes(b"k" * 32 + b"\n")
    signer = read_signer(Audit(key_file=tmp_path / "key"))
    assert signer is not None
    assert signer.sign
    with pytest.raises(ValidationError, match="need a key_file"):
        Audit(receipts=True)


def test_a_file_that_cannot_sign_stops_a_start(tmp_path: Path) -> None:
    """Absent, too short, or a public key; the setting and the file are named."""
    public = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(PEM, PUBLIC)
    for content, words in ((None, "No such file"), (b"k", "32 bytes"), (public, "public key")):
        path = tmp_path / "key"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=words) as caught:
            read_signer(Audit(key_file=path))
        assert "audit.key_file" in str(caught.value)
