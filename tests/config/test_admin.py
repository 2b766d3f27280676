"""Twin of sidecar/config/admin.py: settings of the dashboard that are refused, each with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sidecar.config import Admin
from sidecar.config.admin import is_secure

PROVIDER = {"issuer": "https://idp.example", "client_id": "sidecar"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"proxy": {"addresses": ["0.0.0.0/0"]}}, "all addresses"),
        ({"proxy": {"addresses": ["::/0"]}}, "all addresses"),
        ({"proxy": {"addresses": ["10.0.0.1", "0.0.0.0/1", "128.0.0.0/1"]}}, "all addresses"),
        ({"proxy": {"addresses": ["anywhere"]}}, "valid IPv4"),
        ({"proxy": {"user_header": "X Forwarded"}}, "pattern"),
        ({"oidc": {"issuer": "http://idp.example", "client_id": "x"}}, "write it like https"),
        ({"oidc": {"issuer": "https://idp.example?a=b", "client_id": "x"}}, "write it like https"),
        ({"oidc": {"issuer": "https://u@idp.example", "client_id": "x"}}, "write it like https"),
        ({"oidc": {"issuer": "https://idp.example"}}, "client_id"),
        ({"oidc": {**PROVIDER, "scopes": ["email"]}}, "without openid"),
        ({"oidc": {**PROVIDER, "client_secret": "in the file"}}, "Extra inputs"),
        ({"oidc": {**PROVIDER, "domains": ["@example.com"]}}, "pattern"),
        ({"groups": {"a": {"role": "owner"}}}, "'viewer', 'operator' or 'admin'"),
        ({"groups": {"a": {"teams": ["two words"]}}}, "pattern"),
        ({"unmapped": {"teams": ["*", "A"]}}, "pattern"),
    ],
)
def test_what_would_be_unsafe_or_in_vain_is_refused(values: dict[str, Any], words: str) -> None:
    """A proxy everywhere, a provider in plain HTTP or without an id, a secret in the file, unknown roles."""
    with pytest.raises(ValidationError, match=words):
        Admin.model_validate(values)


def test_nobody_but_accounts_gets_in_by_default() -> None:
    """No provider, no trusted proxy, and nobody without a group."""
    admin = Admin()
    assert (admin.oidc.issuer, admin.proxy.addresses, admin.unmapped, admin.viewer_texts) == (None, (), None, False)


@pytest.mark.parametrize(
    ("url", "secure"),
    [
        ("https://idp.example/x", True),
        ("http://localhost:8080", True),
        ("http://127.0.0.1:1/x", True),
        ("http://[::1]/", True),
        ("http://idp.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("https://", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
def test_plain_http_is_for_this_machine_alone(url: str, secure: bool) -> None:
    """Whatever a host name looks like."""
    assert is_secure(url) is secure
