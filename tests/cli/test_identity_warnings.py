"""Twin of sidecar/cli/identity_warnings.py."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.cli import setting_warnings
from sidecar.cli.identity_warnings import warnings
from sidecar.config import Admin, Settings

URL = "https://sidecar.example"
OIDC = {"issuer": "https://idp.example", "client_id": "sidecar"}
READERS = {"readers": {"role": "viewer", "teams": ["*"]}}
PROXY = {"addresses": ["127.0.0.1/32"]}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"oidc": OIDC, "url": URL}, "no group has a role"),
        ({"proxy": PROXY}, "no group has a role"),
        ({"proxy": PROXY, "groups": {"a": {"teams": ["shop"]}}}, "no group has a role"),
        ({"proxy": PROXY, "groups": {"a": {"role": "viewer"}}}, "see no decisions"),
        ({"proxy": PROXY, "groups": READERS, "unmapped": {"role": "admin"}}, "everybody"),
        ({"groups": READERS}, "nobody has a group"),
        ({"unmapped": {"role": "viewer"}}, "nobody has a group"),
        ({"oidc": OIDC, "groups": READERS}, "redirect URI"),
        ({"oidc": OIDC, "groups": READERS, "url": "http://sidecar.example"}, "plain HTTP"),
        ({"oidc": {**OIDC, "domains": ["x.example"], "scopes": ["openid"]}, "groups": READERS, "url": URL}, "email"),
        ({"oidc": OIDC, "proxy": PROXY, "groups": READERS, "url": URL}, "both are on"),
        ({"proxy": {"addresses": ["10.0.0.0/8"]}, "groups": READERS}, "10.0.0.0/8"),
        ({"proxy": {"addresses": ["fd00::/8"]}, "groups": READERS}, "fd00::/8"),
    ],
)
def test_wrong_combinations_are_named(values: dict[str, Any], words: str) -> None:
    """By `sidecar check`, in one line each."""
    (line,) = warnings(Admin.model_validate(values))
    assert words in line
    assert line in setting_warnings.warnings(Settings.model_validate({"admin": values}), {})


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"oidc": OIDC, "groups": READERS, "url": URL},
        {"proxy": {"addresses": ["10.1.0.0/16", "::1"]}, "groups": {"a": {"role": "admin"}}},
        {"proxy": PROXY, "unmapped": {"role": "viewer", "teams": ["*"]}},
    ],
)
def test_right_ones_are_not(values: dict[str, Any]) -> None:
    """The defaults, a provider and a proxy as the guide has them."""
    assert list(warnings(Admin.model_validate(values))) == []
