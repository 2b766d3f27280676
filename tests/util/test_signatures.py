"""Twin of sidecar/util/signatures.py."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sidecar.util.signatures import decode, encode, read_key

PEM = serialization.Encoding.PEM
PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo


def private_pem(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    """A private key as a file holds it."""
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encryption)


def test_the_public_key_verifies() -> None:
    """It has the same name and signs nothing; a changed message or signature is none of its own."""
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = read_key(private_pem(key)), read_key(key.public_key().public_bytes(PEM, PUBLIC))
    assert private.sign
    signature = private.sign(b"message")
    assert (public.name, public.sign) == (private.name, None)
    assert public.verify(b"message", signature)
    assert not public.verify(b"massage", signature)
    assert not public.verify(b"message", b"x" + signature[1:])
    assert not public.verify(b"message", b"")


def test_a_secret_signs_and_verifies() -> None:
    """Another secret has another name and verifies nothing of it."""
    one, other = read_key(b"s" * 32), read_key(b"t" * 32)
    assert one.sign
    assert one.verify(b"message", one.sign(b"message"))
    assert not other.verify(b"message", one.sign(b"message"))
    assert one.name != other.name


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"short", "at least 32 bytes"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "no key in PEM"),
        (private_pem(ed25519.Ed25519PrivateKey.generate(), b"secret"), "without a password"),
        (private_pem(ec.generate_private_key(ec.SECP256R1())), "Ed25519"),
    ],
)
def test_other_files_are_refused(content: bytes, words: str) -> None:
    """The message holds nothing of the file."""
    with pytest.raises(ValueError, match=words) as caught:
        read_key(content)
    assert "AAAA" not in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"a", b"ab", b"abc", bytes(range(256))])
def test_base64_round_trips(raw: bytes) -> None:
    """Without padding, and with characters of URLs alone."""
    assert decode(encode(raw)) == raw
    assert set(encode(raw)).isdisjoint("=+/")
