"""TLS settings of the upstream: trusted authorities and the client certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

from sidecar.config.sections import UpstreamTls
from sidecar.errors import ConfigError
from sidecar.util.files import describe_failure


def create_context(settings: UpstreamTls) -> ssl.SSLContext:
    """Trusts the system's authorities and `ca_file`; presents `certificate_file`.

    Raises `ConfigError`, which names the setting, when a file cannot be used.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if settings.ca_file is not None:
        try:
            context.load_verify_locations(settings.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError("upstream.tls.ca_file", [_describe(settings.ca_file, error)]) from None
    if settings.certificate_file is not None:
        try:
            context.load_cert_chain(settings.certificate_file, settings.key_file, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError("upstream.tls.certificate_file", [_describe(settings.certificate_file, error)]) from None
    return context


def _no_password() -> str:
    """Called when the key is encrypted; without it the process would prompt on the terminal."""
    raise ValueError("the key is encrypted")


def _describe(path: Path, error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{path}: no certificate (and key) in PEM, or the two do not belong together"
    if isinstance(error, OSError):
        return f"{error.filename or path}: {describe_failure(error)}"
    return f"{path}: {error}"
