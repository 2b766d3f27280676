"""How certificates are trusted and shown where the upstream speaks TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

from sidecar.config.sections import UpstreamTls
from sidecar.errors import ConfigError


def context(settings: UpstreamTls) -> ssl.SSLContext:
    """Trusts what the system trusts and `ca_file`; shows `certificate_file`.

    Raises `ConfigError`, which names the setting, when a file cannot be used.
    """
    made = ssl.create_default_context()
    made.set_alpn_protocols(["http/1.1"])
    if settings.ca_file is not None:
        try:
            made.load_verify_locations(settings.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError("upstream.tls.ca_file", [_unusable(settings.ca_file, error)]) from None
    if settings.certificate_file is not None:
        try:
            made.load_cert_chain(settings.certificate_file, settings.key_file, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError("upstream.tls.certificate_file", [_unusable(settings.certificate_file, error)]) from None
    return made


def _no_password() -> str:
    """Asked for when the key is encrypted; without this the process would wait for somebody at the terminal."""
    raise ValueError("the key is encrypted")


def _unusable(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error.filename or path}: no such file"
    if isinstance(error, ssl.SSLError):
        return f"{path}: no certificate (and key) in PEM, or the two do not belong together"
    return f"{path}: {error if isinstance(error, ValueError) else type(error).__name__}"
