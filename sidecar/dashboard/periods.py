"""Time ranges of the overview: the last hour, day, week or month, or any other; and the links to the rows in them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from sidecar.dashboard.charts import time_range
from sidecar.dashboard.forms import Form, refused
from sidecar.errors import RequestError

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MAX_COLUMNS = 62
STEPS = (MINUTE, 5 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR, DAY, 7 * DAY, 30 * DAY)
"""From an hour on, the chart of all keys is read from hourly totals."""
MAX_LENGTH = MAX_COLUMNS * STEPS[-1]
_FORMAT = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True, slots=True)
class Range:
    """A selectable time range, in steps."""

    name: str
    words: str
    length: timedelta
    step: timedelta


RANGES = (
    Range("hour", "hour", HOUR, MINUTE),
    Range("day", "24 hours", DAY, HOUR),
    Range("week", "7 days", 7 * DAY, 3 * HOUR),
    Range("month", "30 days", 30 * DAY, DAY),
)


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` to before `until`, in steps. `name`: that of a selectable range, else empty."""

    since: datetime
    until: datetime
    step: timedelta
    name: str = ""
    words: str = ""

    def query(self, **parameters: str | None) -> str:
        """It as a query of the overview; a selectable range stays relative to the present."""
        moments = {"range": self.name} if self.name else self._moments
        return urlencode(moments | {name: value for name, value in parameters.items() if value})

    def rows(self, **criteria: str | None) -> str:
        """The address of the decisions in it that meet further criteria."""
        return decisions_in(self.since, self.until, **criteria)

    def rows_at(self, at: datetime, **criteria: str | None) -> str:
        """The address of the decisions in one of its steps."""
        return decisions_in(at, at + self.step, **criteria)

    def zoom(self, at: datetime, page: str = "/", **criteria: str | None) -> str:
        """The address of a page of one of its steps; of the shortest step that of its decisions."""
        if self.step == STEPS[0]:
            return self.rows_at(at, **criteria)
        return f"{page}?{Period(at, at + self.step, self.step).query(**criteria)}"

    def around(self, **criteria: str | None) -> dict[str, str]:
        """Queries of the time before, of twice the time, and of the time after, where a page shows them."""
        length = self.until - self.since
        moved = {"Earlier": (-1.0, -1.0), "Zoom out": (-1.0, 0.0) if self.name else (-0.5, 0.5), "Later": (1.0, 1.0)}
        queries = {}
        for name, (first, last) in moved.items():
            with suppress(OverflowError):
                period = Period(self.since + first * length, self.until + last * length, self.step)
                queries[name] = period.query(**criteria) if period.until - period.since <= MAX_LENGTH else ""
        return {name: query for name, query in queries.items() if query and not (name == "Later" and self.name)}

    @property
    def _moments(self) -> dict[str, str]:
        return {"since": self.since.strftime(_FORMAT), "until": self.until.strftime(_FORMAT)}


def decisions_in(since: datetime, until: datetime, **criteria: str | None) -> str:
    """The address of the decisions in a time range."""
    moments = {"since": since.strftime(_FORMAT), "until": until.strftime(_FORMAT)}
    return f"/decisions?{urlencode(moments | {name: value for name, value in criteria.items() if value})}"


def read_choice(form: Form) -> dict[str, str]:
    """The team and the key that a query chooses, as parameters of links."""
    return {name: text for name in ("team", "key") if (text := form.text(name))}


def read_period(form: Form, now: datetime) -> Period:
    """The time range that a query chooses: by `since` and `until`, or by name. Raises `RequestError`."""
    since, until = form.moment("since"), form.moment("until")
    if since or until:
        return _free(since, until or now)
    name = form.choice("range", [span.name for span in RANGES]) or "day"
    span = next(span for span in RANGES if span.name == name)
    return Period(*time_range(now, span.length, span.step), span.step, span.name, span.words)


def try_period(form: Form, now: datetime) -> tuple[Period, RequestError | None]:
    """The same, or the last day and what is wrong with the query."""
    try:
        return read_period(form, now), None
    except RequestError as error:
        return read_period(Form(), now), error


def _free(since: datetime | None, until: datetime) -> Period:
    """Whole steps around two moments; without a beginning, the day before the end."""
    begins = since or until - DAY if until.timestamp() > DAY.total_seconds() else until
    length = until - begins
    if not timedelta(0) < length <= MAX_LENGTH:
        raise refused(400, f"The end must lie after the beginning, by at most {MAX_LENGTH.days} days.", param="until")
    step = next(step for step in STEPS if length / step <= MAX_COLUMNS - 1 or step == STEPS[-1])
    seconds = int(step.total_seconds())
    first, last = int(begins.timestamp()) // seconds, -(-int(until.timestamp()) // seconds)
    try:
        ends = [datetime.fromtimestamp(number * seconds, UTC) for number in (first, max(last, first + 1))]
        return Period(ends[0], ends[1], step)
    except (ValueError, OverflowError, OSError):
        raise refused(400, "This time is out of range.", param="since") from None
