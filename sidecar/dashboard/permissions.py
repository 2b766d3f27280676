"""Who may do what: every route of the admin port with its least role, in one table.

A page that is not in the table is not served: the dashboard does not start with it. `docs/access.md` shows the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from sidecar.storage import Role


class Permission(NamedTuple):
    """A route, its least role (None: needs no login), and what it serves in words."""

    method: str
    path: str
    role: Role | None
    words: str


def _routes(role: Role | None, lines: str) -> Iterator[Permission]:
    for line in lines.strip().splitlines():
        route, _, words = line.partition("  ")
        method, path = route.strip().split()
        yield Permission(method, path, role, words.strip())


_ANYBODY = """
GET /health                        probes
GET /ready                         probes
GET /startup                       probes
GET /metrics                       metrics
GET /openapi.json                  description of the APIs
GET /reference                     description of the APIs
POST /quit                         shutdown by the same pod, if `admin.quit` is set
GET /static/icon.svg               style sheet and script
GET /static/script.js              style sheet and script
GET /static/style.css              style sheet and script
GET /login                         login
POST /login                        login
GET /login/oidc                    login
GET /login/oidc/callback           login
GET /invitation/{token}            one-time links
POST /invitation/{token}           one-time links
"""
_VIEWER = """
GET /                              overview and trends
GET /trends                        overview and trends
GET /decisions                     decisions (prompt texts only with `admin.viewer_texts`)
GET /decisions/export              decisions (prompt texts only with `admin.viewer_texts`)
GET /decisions/find                decisions (prompt texts only with `admin.viewer_texts`)
GET /decisions/{id}                decisions (prompt texts only with `admin.viewer_texts`)
GET /decisions/views               own saved views; only an admin saves and changes shared ones
POST /decisions/views              own saved views; only an admin saves and changes shared ones
GET /decisions/views/{id}          own saved views; only an admin saves and changes shared ones
POST /decisions/views/{id}/rename  own saved views; only an admin saves and changes shared ones
POST /decisions/views/{id}/update  own saved views; only an admin saves and changes shared ones
POST /decisions/views/{id}/delete  own saved views; only an admin saves and changes shared ones
GET /keys                          keys, never their values
GET /keys/{id}                     keys, never their values
GET /settings                      settings in force, without secrets and free text
GET /policies                      rules
GET /policies/{id}                 rules
GET /exceptions                    exceptions
GET /shadow                        disagreements of a shadow policy set
GET /mcp                           tools of MCP servers
GET /account                       own account and sessions
POST /account/password             own account and sessions
POST /logout                       own account and sessions
POST /logout/everywhere            own account and sessions
"""
_OPERATOR = """
GET /playground                    playground
POST /playground                   playground
POST /decisions/{id}/exception     marks: exceptions added and revoked, of limited users for keys of their teams
POST /exceptions/{id}/revoke       marks: exceptions added and revoked, of limited users for keys of their teams
POST /keys                         keys created, changed, rotated, revoked, deleted, with rules switched for a key
POST /keys/{id}                    keys created, changed, rotated, revoked, deleted, with rules switched for a key
POST /keys/{id}/rotate             keys created, changed, rotated, revoked, deleted, with rules switched for a key
POST /keys/{id}/revoke             keys created, changed, rotated, revoked, deleted, with rules switched for a key
POST /keys/{id}/delete             keys created, changed, rotated, revoked, deleted, with rules switched for a key
"""
_ADMIN = """
POST /mcp/accept                   changed tools of MCP servers accepted and forgotten
POST /mcp/forget                   changed tools of MCP servers accepted and forgotten
GET /users                         users, their roles and teams
POST /users                        users, their roles and teams
POST /users/{name}/role            users, their roles and teams
POST /users/{name}/teams           users, their roles and teams
POST /users/{name}/reset           users, their roles and teams
POST /users/{name}/remove          users, their roles and teams
POST /users/{name}/withdraw        users, their roles and teams
GET /audit                         audit trail
GET /audit/export                  audit trail
GET /alerts                        alerts to the webhook, and a test of it
POST /alerts/test                  alerts to the webhook, and a test of it
"""
PERMISSIONS: tuple[Permission, ...] = (
    *_routes(None, _ANYBODY),
    *_routes(Role.VIEWER, _VIEWER),
    *_routes(Role.OPERATOR, _OPERATOR),
    *_routes(Role.ADMIN, _ADMIN),
)
_LEAST = {(permission.method, permission.path): permission.role for permission in PERMISSIONS}


def least_role(method: str, path: str) -> Role | None:
    """The least role of a route; None: it needs no login. Raises `KeyError` for a route that is not in the table."""
    return _LEAST[method, path]


def table() -> str:
    """The table as Markdown: what each role adds to the one before it."""
    lines = ["| role | what it adds | routes |", "|---|---|---|"]
    for role, permissions in groupby(PERMISSIONS, lambda permission: permission.role):
        lines += _rows(str(role or "nobody"), permissions)
    return "\n".join(lines)


def _rows(role: str, permissions: Iterable[Permission]) -> Iterator[str]:
    for words, group in groupby(permissions, lambda permission: permission.words):
        routes = ", ".join(f"`{permission.method} {permission.path}`" for permission in group)
        yield f"| {role} | {words} | {routes} |"
