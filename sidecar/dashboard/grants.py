"""What users get whom a provider or a proxy has authenticated: role and teams by their groups (`admin.groups`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.config import Admin
from sidecar.config.admin import ALL_TEAMS
from sidecar.storage import Role

OIDC, PROXY = "oidc:", "proxy:"
"""What the names of such users begin with. No account with a password has a colon in its name."""
MAX_GROUPS = 1_000


@dataclass(frozen=True, slots=True)
class Grant:
    """A role and the teams that it is limited to; None: all."""

    role: Role
    teams: tuple[str, ...] | None


def grant(groups: Iterable[str], settings: Admin) -> Grant | None:
    """The highest role of the groups, with the teams of all of them; None: no access.

    Without a role by the groups the terms of `admin.unmapped` are added.
    """
    terms = [settings.groups[group] for group in groups if group in settings.groups]
    if settings.unmapped and not any(term.role for term in terms):
        terms.append(settings.unmapped)
    roles = {Role(term.role) for term in terms if term.role}
    if not roles:
        return None
    teams = {team for term in terms for team in term.teams}
    return Grant(max(roles, key=list(Role).index), None if ALL_TEAMS in teams else tuple(sorted(teams)))
