"""Settings of the dashboard's users that are valid and probably not what was meant: nobody gets in, or too many may."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.config import Admin
from sidecar.config.admin import is_secure

MIN_PREFIX = {4: 16, 6: 48}
"""Networks that are larger are hardly those of one proxy."""


def warnings(settings: Admin) -> Iterator[str]:
    """One line for each."""
    is_external = bool(settings.oidc.issuer or settings.proxy.addresses)
    if is_external:
        yield from _nobody(settings)
    elif settings.groups or settings.unmapped:
        yield "admin.groups, admin.unmapped: without admin.oidc.issuer or admin.proxy.addresses nobody has a group"
    if settings.oidc.issuer:
        yield from _oidc(settings)
    for network in settings.proxy.addresses:
        if network.prefixlen < MIN_PREFIX[network.version]:
            yield f"admin.proxy.addresses: any host in {network} can claim to be an admin; name the proxy's addresses"


def _nobody(settings: Admin) -> Iterator[str]:
    terms = [*settings.groups.values(), *([settings.unmapped] if settings.unmapped else [])]
    if not any(term.role for term in terms):
        yield "admin.groups: no group has a role, so that nobody of the provider or proxy gets in"
    elif not any(term.teams for term in terms) and any(term.role in {"viewer", "operator"} for term in terms):
        yield 'admin.groups: no group has teams, so that viewers and operators see no decisions; teams: ["*"] are all'
    if settings.unmapped and settings.unmapped.role in {"operator", "admin"}:
        yield f"admin.unmapped: everybody whom the provider or proxy knows is {settings.unmapped.role}"


def _oidc(settings: Admin) -> Iterator[str]:
    oidc = settings.oidc
    if settings.url is None:
        yield "admin.oidc: without admin.url the redirect URI is that of the address in the browser; register it so"
    elif not is_secure(settings.url):
        yield f"admin.url: {settings.url} carries codes of the provider and sessions in plain HTTP; serve it by https"
    if oidc.domains and "email" not in oidc.scopes:
        yield "admin.oidc.domains: without the scope email the provider may send no address, and nobody gets in"
    if settings.proxy.addresses:
        yield "admin.oidc, admin.proxy: both are on; whom the proxy names is that user, whatever the login says"
