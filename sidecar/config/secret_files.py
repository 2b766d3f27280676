"""Files that hold a secret. Errors name the setting and the file, never the content."""

from __future__ import annotations

from pathlib import Path

from sidecar.errors import ConfigError
from sidecar.util.files import describe_failure


def read_secret(path: Path, setting: str) -> str:
    """A secret as HTTP headers and URLs carry it: one ASCII word. Raises `ConfigError`."""
    try:
        value = read_secret_bytes(path, setting).decode("ascii")
    except UnicodeDecodeError as error:
        raise problem(setting, path, describe_failure(error)) from None
    if not value or not value.isprintable() or " " in value:
        raise problem(setting, path, "must hold one line without blanks")
    return value


def read_secret_bytes(path: Path, setting: str) -> bytes:
    """The bytes of a secret, without white space around them. Raises `ConfigError`."""
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise problem(setting, path, describe_failure(error)) from None


def problem(setting: str, path: Path, reason: str) -> ConfigError:
    """Why the file of a setting cannot be used."""
    return ConfigError(f"{setting} cannot be used", [f"{path}: {reason}"])
