"""The settings of the dashboard: where it listens, how long a login lasts, and who may log in.

Users who log in with an OpenID provider or by the headers of a trusted proxy get role and teams by `admin.groups`.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from sidecar.config.sections import Duration, Port, Section

ALL_TEAMS = "*"
TeamName = Annotated[str, Field(pattern=r"^(\*|[a-z0-9._-]{1,64})$")]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,100}$")]
_LOCAL = frozenset({"localhost"})


def is_secure(url: str) -> bool:
    """Whether nobody on the network can read what is sent there: https, or an address of this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and _is_local(parts.hostname)))


def _is_local(host: str | None) -> bool:
    try:
        return host in _LOCAL or ip_address(host or "").is_loopback
    except ValueError:
        return False


class GroupTerms(Section):
    """What the members of a group may do and see: a role, teams, or both; `*` stands for all teams."""

    role: Literal["viewer", "operator", "admin"] | None = None
    teams: tuple[TeamName, ...] = ()


class Oidc(Section):
    """Login with an OpenID provider, beside accounts; off without an issuer."""

    issuer: str | None = None
    client_id: str = ""
    client_secret_file: Path | None = None
    scopes: tuple[Annotated[str, Field(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")], ...] = ("openid", "email", "profile")
    name_claim: str = "email"
    groups_claim: str = "groups"
    domains: tuple[Annotated[str, Field(pattern=r"^[^\s@]+$")], ...] = ()
    ca_file: Path | None = None
    timeout: Duration = Field(default=5.0, gt=0, le=60)

    @model_validator(mode="after")
    def _complete(self) -> Oidc:
        if self.issuer is None:
            return self
        parts = urlsplit(self.issuer)
        if not is_secure(self.issuer) or parts.query or parts.fragment or parts.username:
            raise ValueError(f"issuer {self.issuer!r}: write it like https://idp.example/realms/staff")
        if not self.client_id:
            raise ValueError("client_id: a provider knows its clients by their ids")
        if "openid" not in self.scopes:
            raise ValueError("scopes: without openid there is no identity")
        return self


class ProxyHeaders(Section):
    """Headers of a proxy that authenticates users; believed only from these addresses, by default from none."""

    addresses: tuple[IPv4Network | IPv6Network, ...] = ()
    user_header: HeaderName = "X-Forwarded-User"
    email_header: HeaderName = "X-Forwarded-Email"
    groups_header: HeaderName = "X-Forwarded-Groups"

    @field_validator("addresses")
    @classmethod
    def _not_everybody(cls, value: tuple[IPv4Network | IPv6Network, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
        v4 = collapse_addresses(network for network in value if isinstance(network, IPv4Network))
        v6 = collapse_addresses(network for network in value if isinstance(network, IPv6Network))
        if any(network.prefixlen == 0 for network in v4) or any(network.prefixlen == 0 for network in v6):
            raise ValueError("these are all addresses: anyone could claim to be an admin; name those of the proxy")
        return value


class Admin(Section):
    """Where the dashboard, metrics and readiness listen, how long a login lasts, and who may log in."""

    host: str = "127.0.0.1"
    port: Port = 8081
    url: str | None = None
    idle: Duration = Field(default=3600.0, ge=60)
    session: Duration = Field(default=43_200.0, ge=60)
    quit: bool = False
    viewer_texts: bool = False
    groups: dict[str, GroupTerms] = Field(default={})
    unmapped: GroupTerms | None = None
    oidc: Oidc = Oidc()
    proxy: ProxyHeaders = ProxyHeaders()

    @model_validator(mode="after")
    def _address(self) -> Admin:
        parts = urlsplit(self.url or "http://localhost")
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(f"url {self.url!r}: write it like https://sidecar.example, without a path")
        return self
