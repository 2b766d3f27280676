"""The filter of the scan log, and its conditions in SQL, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import (
    Column,
    ColumnElement,
    TableValuedAlias,
    Text,
    and_,
    cast,
    exists,
    func,
    literal_column,
    not_,
    or_,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from sidecar.storage.rollups import NO_SCANS, UNKNOWN_ROUTE, Names
from sidecar.storage.schema import decisions as table
from sidecar.storage.schema import exceptions
from sidecar.storage.teams import ids_of, of_teams

if TYPE_CHECKING:
    from sidecar.storage.decisions import DecisionRow

_BOUNDS = frozenset({"since", "until", "key_id", "before", "teams", "text_hidden"})
_OF_FLAGGED = frozenset({"label", "action", "recommended", "outcome", "kind", "door", "failure"})
_COLUMNS_OF = {
    "label": ("threats",),
    "key_id": ("key_id",),
    "teams": ("key_id",),
    "kind": ("failure", "segments", "door", "unscanned"),
    "outcome": ("failure", "unscanned"),
    "without": ("key_id", "model"),
    "rule": ("findings",),
    "rule_begins": ("findings",),
    "risk": ("risk_score",),
    "review": ("findings",),
    "ran": ("layers",),
    "words": ("route", "digest", "findings", "request", "text"),
}
"""The columns of each further criterion; every one has `id` and `at`."""
_EQUAL = ("key_id", "model", "action", "layer_used", "recommended", "client", "door", "failure")


@dataclass(frozen=True, slots=True)
class Filter:
    """Criteria for rows; `None` matches any. `before` is the last row of the previous page."""

    since: datetime | None = None
    until: datetime | None = None
    key_id: str | None = None
    model: str | None = None
    label: str | None = None
    action: str | None = None
    layer_used: str | None = None
    client: str | None = None
    before: DecisionRow | None = None
    kind: Literal["scan", "other"] | None = None
    """Scans (`rollups.is_scan`), or all other requests."""
    recommended: str | None = None
    outcome: Literal["failed", "unscanned"] | None = None
    """Those that could not be scanned, or that reached the model unscanned."""
    without: Literal["key", "model"] | None = None
    door: str | None = None
    """An entry point."""
    failure: str | None = None
    """Why it could not be scanned, or was not accepted."""
    risk: float | None = None
    """The least risk."""
    review: Literal["marked", "excepted"] | None = None
    """Those marked as false positives, or those with a finding that did not count because of an exception."""
    rule: str | None = None
    rule_begins: str | None = None
    """The beginning of the id of a rule, in upper or lower case."""
    ran: str | None = None
    """A layer that ran, whether it decided or not."""
    words: str | None = None
    """The beginning of an id, a rule or a path (of the request, or in its body), a tool, or a part of the kept text."""
    teams: Sequence[str] | None = None
    """Only decisions with keys that belong to these teams now."""
    text_hidden: Literal[True] | None = None
    """Rows come without `text` and `reasoning`, and `words` are not looked for in them."""


class _JsonItems(GenericFunction[Any]):
    """The items of a JSON list as rows."""

    inherit_cache = True
    name = "json_array_elements"


@compiles(_JsonItems, "sqlite")
def _on_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


def is_indexed(criteria: Filter) -> bool:
    """Whether indexes answer it: a time, a key, a page; of flagged rows whatever their index holds."""
    indexed_names = _BOUNDS | (_OF_FLAGGED if is_flagged(criteria) else frozenset())
    return all(getattr(criteria, field.name) is None for field in fields(Filter) if field.name not in indexed_names)


def is_flagged(criteria: Filter) -> bool:
    """Whether only flagged rows (`schema.FLAGGED`) can match."""
    is_refused = criteria.action not in {None, "allow"} or criteria.recommended == "block"
    is_refused = is_refused or criteria.failure is not None
    return is_refused or criteria.label is not None or criteria.outcome is not None


def names_of(criteria: Filter) -> Names | None:
    """The key of a filter in the totals, or a query of those of its teams; None: any."""
    if criteria.teams is None or criteria.key_id is None:
        return criteria.key_id if criteria.teams is None else ids_of(criteria.teams)
    return ids_of(criteria.teams, criteria.key_id).scalar_subquery()


def bounds(criteria: Filter, columns: Any = table.c) -> list[ColumnElement[bool]]:
    """The conditions on time, key and page, which the indexes answer."""
    clauses: list[ColumnElement[bool]] = []
    if criteria.key_id is not None:
        clauses.append(columns.key_id == criteria.key_id)
    if criteria.teams is not None:
        # Flagged rows have an index in the order of time: this expression keeps the index of keys unused for teams.
        key = func.coalesce(columns.key_id, "") if is_flagged(criteria) else columns.key_id
        clauses += of_teams(key, criteria.teams)
    if criteria.since is not None:
        clauses.append(columns.at >= criteria.since)
    if criteria.until is not None:
        clauses.append(columns.at < criteria.until)
    if criteria.before is not None:
        at, last = criteria.before.at, criteria.before.id
        clauses.append(or_(columns.at < at, and_(columns.at == at, columns.id < last)))
    return clauses


def columns_of(criteria: Filter) -> set[str]:
    """The columns that `conditions` reads: a window of rows need not carry the others."""
    names = {name for name in _EQUAL if getattr(criteria, name) is not None}
    for name, columns in _COLUMNS_OF.items():
        names |= set(columns) if getattr(criteria, name) is not None else set()
    return names


def conditions(criteria: Filter, columns: Any = table.c) -> list[ColumnElement[bool]]:
    """The whole filter as SQL conditions on the columns of the table or of a subquery."""
    clauses = bounds(criteria, columns)
    clauses += [columns[name] == value for name in _EQUAL if (value := getattr(criteria, name)) is not None]
    if criteria.label is not None:
        clauses.append(columns.threats.contains(criteria.label, autoescape=True))
    if criteria.kind is not None:
        clauses.append(_is_scan(columns) if criteria.kind == "scan" else not_(_is_scan(columns)))
    if criteria.outcome is not None:
        clauses.append((columns.failure if criteria.outcome == "failed" else columns.unscanned).is_not(None))
    if criteria.without is not None:
        clauses.append((columns.key_id if criteria.without == "key" else columns.model).is_(None))
    if criteria.risk is not None:
        clauses.append(columns.risk_score >= criteria.risk)
    clauses += _of_findings(columns, criteria)
    if criteria.ran is not None:
        clauses.append(_has_item(columns.layers, json_member("layer") == criteria.ran))
    return clauses if criteria.words is None else [*clauses, _mentions(columns, criteria)]


def _of_findings(columns: Any, criteria: Filter) -> list[ColumnElement[bool]]:
    clauses: list[ColumnElement[bool]] = []
    if criteria.rule is not None:
        clauses.append(_has_item(columns.findings, json_member("rule") == criteria.rule))
    if criteria.rule_begins is not None:
        clauses.append(_has_item(columns.findings, _begins("rule", criteria.rule_begins)))
    if criteria.review == "marked":
        clauses.append(columns.id.in_(select(exceptions.c.decision).where(exceptions.c.decision.is_not(None))))
    if criteria.review == "excepted":
        clauses.append(_has_item(columns.findings, is_excepted()))
    return clauses


def _is_scan(columns: Any) -> ColumnElement[bool]:
    """`rollups.is_scan` in SQL; never NULL."""
    tried = and_(columns.failure.is_not(None), columns.failure.not_in(NO_SCANS))
    forwarded = and_(columns.unscanned.is_not(None), columns.unscanned != UNKNOWN_ROUTE)
    return or_(columns.segments > 0, forwarded, columns.door == "answer", tried)


def _mentions(columns: Any, criteria: Filter) -> ColumnElement[bool]:
    words = criteria.words or ""
    begins = {name: _begins(name, words) for name in ("rule", "path")}
    listed = or_(func.lower(json_member("tool")) == words.lower(), begins["path"])
    return or_(
        columns.id.startswith(words, autoescape=True),
        columns.digest == words,
        func.lower(columns.route).startswith(words.lower(), autoescape=True),
        _has_item(columns.findings, or_(*begins.values())),
        and_(columns.request.is_not(None), _has_item(columns.request, listed)),
        *([] if criteria.text_hidden else [columns.text.icontains(words, autoescape=True)]),
    )


def _begins(name: str, words: str) -> ColumnElement[bool]:
    return func.lower(json_member(name)).startswith(words.lower(), autoescape=True)


def is_excepted() -> ColumnElement[bool]:
    """Whether the current finding did not count because of an exception: `true`, which SQLite gives as 1."""
    return cast(json_member("excepted"), Text).in_(("true", "1"))


def json_member(name: str) -> ColumnElement[str]:
    """A member of the current `item` of a JSON list."""
    return literal_column(f"item.value ->> '{name}'", Text)


def _has_item(column: Column[Any], condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().select_from(json_items(column)).where(condition)


def json_items(column: ColumnElement[Any]) -> TableValuedAlias:
    """The items of a JSON list as rows named `item`."""
    return _JsonItems(column).table_valued("value", name="item")
