"""Database access: keys, decisions, secrets and accounts; SQLite by default, PostgreSQL for replicas.

`schema` defines the tables, `database` opens and migrates them; each of the other modules covers one table.
"""

from __future__ import annotations

from contextlib import suppress

from sidecar.errors import StoreError
from sidecar.storage.admins import Admin, Admins, ChangeResult, Invitation, Role, valid_name
from sidecar.storage.analytics import SCANS, Analytics, Bucket, Group, Totals
from sidecar.storage.audit import Audit, Event
from sidecar.storage.checkpoints import Checkpoints
from sidecar.storage.database import CONNECTIONS, Database
from sidecar.storage.decision_filter import Filter
from sidecar.storage.decisions import DecisionPage, DecisionRow, Decisions, Sort
from sidecar.storage.disagreements import Disagreement, Disagreements
from sidecar.storage.exceptions import Exceptions, Marks, RuleException
from sidecar.storage.exports import export, export_audit
from sidecar.storage.keys import ApiKey, KeyChanges, KeyOverrides, Keys, KeyState, Mode
from sidecar.storage.last_start import LastStart
from sidecar.storage.notices import Notices
from sidecar.storage.pins import Pin, Pins, state_of
from sidecar.storage.refusals import NO_KEY, Cause, Refusals
from sidecar.storage.rollups import NOT_SCANNED, RollUps
from sidecar.storage.schema import MAX_NAME, MAX_QUERY, MAX_RULE_CHANGES, MAX_TEAM, audit, decisions, storable
from sidecar.storage.secrets import Secret, Secrets
from sidecar.storage.sessions import Session, Sessions
from sidecar.storage.teams import MAX_TEAMS, valid_team
from sidecar.storage.trends import TREND_ROWS, Cost, Steps, Trends
from sidecar.storage.views import MAX_VIEWS, SHARED, View, Views
from sidecar.util.signatures import Signer

__all__ = [
    "MAX_NAME",
    "MAX_QUERY",
    "MAX_RULE_CHANGES",
    "MAX_TEAM",
    "MAX_TEAMS",
    "MAX_VIEWS",
    "NOT_SCANNED",
    "NO_KEY",
    "SCANS",
    "SHARED",
    "TREND_ROWS",
    "Admin",
    "Admins",
    "Analytics",
    "ApiKey",
    "Audit",
    "Bucket",
    "Cause",
    "ChangeResult",
    "Cost",
    "DecisionPage",
    "DecisionRow",
    "Disagreement",
    "Disagreements",
    "Event",
    "Exceptions",
    "Filter",
    "Group",
    "Invitation",
    "KeyChanges",
    "KeyOverrides",
    "KeyState",
    "Keys",
    "LastStart",
    "Marks",
    "Mode",
    "Notices",
    "Pin",
    "Pins",
    "Refusals",
    "Role",
    "RuleException",
    "Secret",
    "Secrets",
    "Session",
    "Sessions",
    "Sort",
    "Steps",
    "Store",
    "Totals",
    "Trends",
    "View",
    "Views",
    "export",
    "export_audit",
    "state_of",
    "storable",
    "valid_name",
    "valid_team",
]


class Store:
    """The open database. Any access may raise `StoreError`, which never contains a password."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.keys = Keys(database)
        rollups = RollUps(database)
        self.checkpoints = Checkpoints(database)
        self.decisions = Decisions(database, rollups, self.checkpoints)
        self.secrets = Secrets(database)
        self.admins = Admins(database)
        self.sessions = Sessions(database)
        self.audit = Audit(database, self.checkpoints)
        self.notices = Notices(database)
        self.analytics = Analytics(database, rollups)
        self.trends = Trends(database, rollups, self.analytics)
        self.exceptions = Exceptions(database)
        self.disagreements = Disagreements(database)
        self.pins = Pins(database)
        self.views = Views(database)
        self.last_start = LastStart(database)
        self.refusals = Refusals(database)

    @property
    def place(self) -> str:
        """Which database it is, for messages: the whole path of a file, or host and name without credentials."""
        return self._database.name

    @property
    def problem(self) -> str | None:
        """Why the latest access failed; None if it succeeded. Without the password."""
        return self._database.problem

    async def probe(self) -> None:
        """Access the database once, which sets or clears `problem`."""
        with suppress(StoreError):
            await self._database.ping()

    @classmethod
    async def open(
        cls, url: str, connections: int = CONNECTIONS, *, migrated: bool = False, signer: Signer | None = None
    ) -> Store:
        """Connect to `sqlite:///FILE` or `postgresql://...` and migrate the tables. `connections`: at most so many.

        `migrated`: another pool of connections to a database that is open already. `signer`: signs the checkpoints.
        """
        store = cls(await Database.open(url, connections=connections, migrated=migrated))
        store.checkpoints.signer = signer
        if not migrated:
            await store.checkpoints.begin((decisions, audit))
        return store

    @classmethod
    async def try_connect(cls, url: str) -> str | None:
        """Connect and change nothing. Returns the problem, if there is one."""
        return await Database.try_connect(url)

    async def close(self) -> None:
        """Close all connections."""
        await self._database.close()

    @property
    def name(self) -> str:
        """The database, without credentials."""
        return self._database.name
