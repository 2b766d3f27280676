"""The tables: one schema for SQLite and PostgreSQL.

Two column types make the databases behave alike and client-supplied text harmless: `Moment` is always an aware UTC
datetime, `Bounded` text is truncated and contains nothing that a database rejects. `migrations/` builds these tables; a
test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.engine import Dialect

MAX_NAME = 200
FLAGGED = "threats <> '' OR action <> 'allow' OR failure IS NOT NULL OR unscanned IS NOT NULL"
"""The rows that people look for, which an index holds: those with a threat, or that were not just allowed."""
FLAGGED_COLUMNS = ("at", "id", "threats", "action", "recommended", "failure", "unscanned", "segments", "door", "key_id")
"""The columns of that index: those that a list of such rows is filtered by, so that it does not read the table."""
OF_KEYS = "dimension = 'key'"
"""The totals that an index holds by name: those of one key or of a few are read without those of all others."""
MAX_TEXT = 100_000
MAX_QUERY = 2_000
"""Characters of the query of a saved view."""
MAX_TEAM = 64


def storable(text: str, length: int) -> str:
    """The text without NUL and lone surrogates, which PostgreSQL and SQLite reject, truncated to `length`."""
    if len(text) <= length and text.isascii() and "\x00" not in text:
        return text
    return text[:length].replace("\x00", "�").encode("utf-8", "replace").decode("utf-8")


class Moment(TypeDecorator[datetime]):
    """A point in time in UTC, with its time zone on both databases."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """SQLite stores no zone, so values are converted to UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Mark stored values as UTC."""
        return None if value is None else value.replace(tzinfo=UTC)


class Bounded(TypeDecorator[str]):
    """Text of a bounded number of code points; longer text is truncated, unstorable characters are replaced."""

    impl = String
    cache_ok = True

    def __init__(self, longest: int) -> None:
        super().__init__(longest if longest < MAX_TEXT else None)
        self.longest = longest

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None]:  # noqa: ARG002 - all the same
        """Truncate and clean: called for every value of every row."""
        longest = self.longest
        return lambda value: None if value is None else storable(value, longest)


metadata = MetaData()

MAX_RULE_CHANGES = 2_000
"""Characters of the rule changes of a key."""
MAX_TEAMS_TEXT = 50 * (MAX_TEAM + 1)
"""Characters of the teams of a user, with blanks between them."""
MAX_SUBJECT = 1_000
"""Characters of an identity: the issuer and its `sub`."""
MAX_PROFILE_NAME = 48
MAX_LINEAGE = 400
"""Earlier keys that a key remembers: with a rotation each day more than a year, the longest life of an exception."""


def _text(name: str, length: int, **options: Any) -> Column[str]:
    return Column(name, Bounded(length), **{"nullable": False, **options})


keys = Table(
    "api_keys",
    metadata,
    _text("id", 8, primary_key=True),
    _text("name", MAX_NAME),
    _text("environment", 16),
    Column("digest", LargeBinary(32), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    Column("last_used_at", Moment),
    Column("rate_requests", Integer),
    Column("rate_period", Float),
    Column("burst", Integer),
    Column("threshold", Float),
    _text("mode", 16, nullable=True),
    _text("successor", 8, nullable=True),
    _text("rules", MAX_RULE_CHANGES, nullable=True),
    _text("lineage", 9 * MAX_LINEAGE, nullable=True),
    _text("team", MAX_TEAM, nullable=True),
    _text("profile", MAX_PROFILE_NAME, nullable=True),
)

decisions = Table(
    "decisions",
    metadata,
    _text("id", 64, primary_key=True),
    Column("at", Moment, nullable=False),
    _text("door", 16),
    _text("route", MAX_NAME),
    _text("action", 16),
    _text("recommended", 16),
    Column("status", Integer, nullable=False),
    Column("risk_score", Float, nullable=False),
    _text("layer_used", 16),
    _text("threats", 200),
    Column("latency_ms", Integer, nullable=False),
    _text("key_id", 8, nullable=True),
    _text("model", MAX_NAME, nullable=True),
    Column("length", Integer, nullable=False),
    Column("segments", Integer, nullable=False),
    _text("digest", 100),
    _text("failure", 64, nullable=True),
    _text("unscanned", 64, nullable=True),
    _text("revision", 64),
    Column("findings", JSON, nullable=False),
    Column("layers", JSON, nullable=False),
    _text("text", MAX_TEXT, nullable=True),
    _text("reasoning", MAX_TEXT, nullable=True),
    _text("client", 64, nullable=True),
    Column("request", JSON(none_as_null=True), nullable=True),
    Column("threshold", Float, nullable=True),
    _text("setting", 16, nullable=True),
    Column("replaced", Integer, nullable=True),
    Index("decisions_by_time", "at", "id"),
    Index("decisions_flagged", *FLAGGED_COLUMNS, sqlite_where=text(FLAGGED), postgresql_where=text(FLAGGED)),
    Index("decisions_by_key", "key_id", "at"),
)

hourly = Table(
    "hourly",
    metadata,
    _text("dimension", 8, primary_key=True),
    Column("hour", Integer, primary_key=True, autoincrement=False),
    _text("name", MAX_NAME, primary_key=True),
    Column("scans", Integer, nullable=False),
    Column("blocked", Integer, nullable=False),
    Column("recommended", Integer, nullable=False),
    Column("unscanned", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("microseconds", BigInteger, nullable=False, server_default="0"),
    Index("hourly_of_keys", "name", "hour", sqlite_where=text(OF_KEYS), postgresql_where=text(OF_KEYS)),
)

refusals = Table(
    "refusals",
    metadata,
    _text("key_id", 8, primary_key=True),
    Column("hour", Integer, primary_key=True, autoincrement=False),
    _text("cause", 8, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Index("refusals_by_hour", "hour"),
)

secrets = Table(
    "secrets",
    metadata,
    _text("name", 32, primary_key=True),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("value", LargeBinary(32), nullable=False),
    Column("created_at", Moment, nullable=False),
)

admins = Table(
    "admins",
    metadata,
    _text("name", 64, primary_key=True),
    _text("role", 16),
    _text("password", 200),
    Column("created_at", Moment, nullable=False),
    Column("last_login_at", Moment),
    _text("teams", MAX_TEAMS_TEXT, nullable=True),
    _text("subject", MAX_SUBJECT, nullable=True),
    Index("admins_by_subject", "subject", unique=True),
)

invitations = Table(
    "invitations",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    _text("name", 64, nullable=True),
    _text("role", 16),
    _text("created_by", 64),
    Column("expires_at", Moment, nullable=False),
    _text("teams", MAX_TEAMS_TEXT, nullable=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("name", Bounded(64), ForeignKey("admins.name", ondelete="CASCADE"), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("used_at", Moment, nullable=False),
    _text("address", 64),
    Index("sessions_by_name", "name"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Moment, nullable=False),
    _text("actor", 64),
    _text("address", 64),
    _text("action", 64),
    _text("target", 200),
    _text("detail", 500),
)

last_start = Table(
    "last_start",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False),
    Column("settings", JSON, nullable=False),
)

exceptions = Table(
    "exceptions",
    metadata,
    _text("id", 16, primary_key=True),
    _text("rule", 64),
    _text("digest", 100),
    _text("reason", 500),
    _text("author", 64),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    _text("key_id", 8, nullable=True),
    _text("decision", 64, nullable=True),
    Column("revoked_at", Moment),
    _text("revoked_by", 64, nullable=True),
    Index("exceptions_by_end", "expires_at"),
    Index("exceptions_by_decision", "decision"),
)

disagreements = Table(
    "disagreements",
    metadata,
    _text("decision", 64, primary_key=True),
    Column("at", Moment, nullable=False),
    _text("key_id", 8, nullable=True),
    _text("revision", 64),
    _text("action", 16),
    Column("score", Float, nullable=False),
    Column("rules", JSON, nullable=False),
    _text("other_revision", 64),
    _text("other_action", 16),
    Column("other_score", Float, nullable=False),
    Column("other_rules", JSON, nullable=False),
    Index("disagreements_by_time", "at", "decision"),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    _text("chain", 16, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False),
    _text("kind", 8),
    Column("latest", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    _text("previous", 64),
    _text("key", 16),
    _text("signature", 128),
)

mcp_pins = Table(
    "mcp_pins",
    metadata,
    _text("server", MAX_NAME, primary_key=True),
    _text("tool", MAX_NAME, primary_key=True),
    _text("digest", 64, nullable=True),
    _text("latest", 64, nullable=True),
    Column("pinned_at", Moment, nullable=False),
    Column("changed_at", Moment),
)

views = Table(
    "views",
    metadata,
    _text("id", 16, primary_key=True),
    _text("owner", 64),
    _text("name", 64),
    _text("query", MAX_QUERY),
    _text("author", 64),
    Column("created_at", Moment, nullable=False),
    Index("views_by_name", "owner", "name", unique=True),
)
