"""Form parsing: bounded in size and time, strictly UTF-8; fields as text, numbers, durations or choices.

An invalid field raises `RequestError` with the field's name as `param`. `Checks` collects those of all fields; pages
show each beside its field.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import parse_qsl

from aiohttp import web

from sidecar.errors import RequestError
from sidecar.util.units import Rate, parse_duration, parse_rate

MOST_FIELDS = 50
SECONDS = 15.0
T = TypeVar("T")


def refused(status: int, detail: str, *, param: str | None = None) -> RequestError:
    """An error with that HTTP status."""
    error = RequestError(detail, param=param)
    error.status = status
    return error


class FormError(RequestError):
    """Several fields are wrong. `problems`: what is wrong, by field; the first one is the `param`."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        name, detail = next(iter(problems.items()))
        super().__init__(detail, param=name)
        self.problems = problems


def problems_of(error: RequestError | None) -> Mapping[str, str]:
    """What is wrong, by field; empty without an error, or if it is about no field."""
    if isinstance(error, FormError):
        return error.problems
    return {error.param: error.detail} if error and error.param else {}


class Checks:
    """Collects what is wrong with the fields of a form, so that all of it is shown at once."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}

    def read(self, convert: Callable[[], T | None]) -> T | None:
        """The value, or None with a note of the problem. Errors that are about no field are raised."""
        try:
            return convert()
        except RequestError as error:
            if not (problems := problems_of(error)):
                raise
            for name, detail in problems.items():
                self._problems.setdefault(name, detail)
            return None

    def done(self) -> None:
        """Raise `RequestError` if anything was wrong."""
        if self._problems:
            raise FormError(self._problems)


class Form(dict[str, str]):
    """The fields of a form or a query; a missing field is empty."""

    def text(self, name: str, longest: int = 200) -> str:
        """A line of text without surrounding white space."""
        value = self.get(name, "").strip()
        if len(value) > longest:
            raise refused(400, f"At most {longest} characters.", param=name)
        return value

    def choice(self, name: str, choices: Collection[str]) -> str | None:
        """One of the choices, or None for an empty field."""
        value = self.text(name)
        if value and value not in choices:
            raise refused(400, f"Choose one of {', '.join(choices)}.", param=name)
        return value or None

    def number(self, name: str, low: float, high: float) -> float | None:
        """A number within bounds, or None for an empty field."""
        return self._read(name, lambda text: _bounded(float(text), low, high))

    def whole(self, name: str, low: int, high: int) -> int | None:
        """A whole number within bounds, or None for an empty field."""
        return self._read(name, lambda text: int(_bounded(int(text), low, high)))

    def duration(self, name: str) -> float | None:
        """Seconds, from `24h` or `90d`; None for an empty field."""
        return self._read(name, parse_duration)

    def rate(self, name: str) -> Rate | None:
        """A rate from `600/minute`; None for an empty field."""
        return self._read(name, parse_rate)

    def moment(self, name: str) -> datetime | None:
        """A point in time, in UTC unless it has an offset; None for an empty field."""
        return self._read(name, _moment)

    def _read(self, name: str, convert: Callable[[str], T]) -> T | None:
        value = self.text(name)
        if not value:
            return None
        try:
            return convert(value)
        except (ValueError, OverflowError) as error:
            raise refused(400, f"{error}.", param=name) from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError("a time such as 2026-05-01T12:00") from None


def _bounded(value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise ValueError(f"must lie between {low:,.10g} and {high:,.10g}")
    return value


async def read(request: web.Request, limit: int) -> Form:
    """The form that was posted. Raises `RequestError` for what is none, too large or too slow."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise refused(415, "A form was expected.")
    if request.content_length is None or request.content_length > limit:
        raise refused(413, f"The form is larger than {limit:,} bytes.")
    try:
        async with asyncio.timeout(SECONDS):
            raw = await request.content.readexactly(request.content_length)
        return Form(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except TimeoutError:
        raise refused(408, "The form did not arrive in time.") from None
    except (ValueError, asyncio.IncompleteReadError):
        raise refused(400, "The form cannot be read.") from None


def inside(form: Mapping[str, str]) -> str:
    """The field `next` as a redirect target: a path on this site only."""
    target = form.get("next", "")
    is_safe = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isascii()
    return target if is_safe and target.isprintable() else "/"


def query(values: Mapping[str, str]) -> Form:
    """The query of a page as a form."""
    return Form({name: value for name, value in values.items() if len(value) <= 500})
