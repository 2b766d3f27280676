"""The key that signs checkpoints and receipts (`audit.key_file`)."""

from __future__ import annotations

from pathlib import Path

from sidecar.config.secret_files import problem, read_secret_bytes
from sidecar.config.sections import Audit
from sidecar.errors import needs_extra
from sidecar.util.signatures import Signer, read_key

SETTING = "audit.key_file"


def read_signer(settings: Audit) -> Signer | None:
    """The signer, if there is a key. Raises `ConfigError`, also for a public key, which signs nothing."""
    if settings.key_file is None:
        return None
    signer = read_verifier(settings.key_file)
    if signer.sign is None:
        raise problem(SETTING, settings.key_file, "is a public key, which signs nothing")
    return signer


def read_verifier(path: Path, setting: str = SETTING) -> Signer:
    """The key in a file, private or public. Raises `ConfigError`."""
    try:
        return read_key(read_secret_bytes(path, setting))
    except ImportError:
        raise problem(setting, path, f"a key in PEM {needs_extra('audit')}") from None
    except ValueError as error:
        raise problem(setting, path, str(error)) from None
