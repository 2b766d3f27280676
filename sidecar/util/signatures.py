"""Signatures over bytes: Ed25519 (RFC 8032) with a key in PEM, else HMAC-SHA256 with a secret.

An Ed25519 signature is verified with the public key; for an HMAC the secret itself is needed. The name of
a key is a digest of the public key or of the secret, so that a signature says by which key it was made.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PEM = b"-----BEGIN"
MIN_SECRET = 32
"""Bytes of a secret at least."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs and verifies. `sign` is None for a public key."""

    name: str
    sign: Callable[[bytes], bytes] | None
    verify: Callable[[bytes, bytes], bool]


def read_key(content: bytes) -> Signer:
    """The signer of a file's content. Raises `ValueError` with the reason, `ImportError` without `cryptography`."""
    return _ed25519(content) if content.startswith(PEM) else _hmac(content)


def encode(raw: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of `encode`. Raises `ValueError`."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _hmac(secret: bytes) -> Signer:
    if len(secret) < MIN_SECRET:
        raise ValueError(f"must hold a key in PEM, or a secret of at least {MIN_SECRET} bytes")

    def sign(message: bytes) -> bytes:
        return hmac.digest(secret, message, "sha256")

    return Signer(
        _name(b"hmac " + secret), sign, lambda message, signature: hmac.compare_digest(sign(message), signature)
    )


def _ed25519(content: bytes) -> Signer:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    is_private = b"PRIVATE" in content.partition(b"\n")[0]
    load: Any = serialization.load_pem_private_key if is_private else serialization.load_pem_public_key
    try:
        key = load(content, None) if is_private else load(content)
    except Exception:  # noqa: BLE001 - of several kinds, and none may quote the key
        raise ValueError("is no key in PEM that can be read without a password") from None
    public = key.public_key() if isinstance(key, ed25519.Ed25519PrivateKey) else key
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise ValueError("must hold an Ed25519 key")  # noqa: TRY004 - the content of a file is wrong

    def verify(message: bytes, signature: bytes) -> bool:
        try:
            public.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return Signer(_name(public.public_bytes_raw()), key.sign if is_private else None, verify)


def _name(material: bytes) -> str:
    return hashlib.sha256(material).hexdigest()[:16]
