"""Forms are read as what they claim to be, or refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from dashboard import DashboardSite

from sidecar.dashboard.forms import Checks, Form, problems_of
from sidecar.errors import RequestError


def test_fields_are_read_as_what_they_are() -> None:
    """Text, choice, number, duration, rate; an empty field is none."""
    form = Form(
        a=" x ",
        b="viewer",
        c="0.5",
        d="90d",
        e="600/minute",
        f="7",
        g=" ",
        h="2026-05-01T10:00",
        i="2026-05-01T12:00+02:00",
    )
    assert form.text("a") == "x"
    assert form.choice("b", ["viewer"]) == "viewer"
    assert form.number("c", 0, 1) == 0.5
    assert form.duration("d") == 90 * 86400
    assert form.rate("e") == (600, 60.0)
    assert form.moment("g") is None
    assert form.moment("h") == form.moment("i") == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert form.whole("f", 1, 10) == 7
    assert form.number("g", 0, 1) is None
    assert form.text("missing") == ""


@pytest.mark.parametrize("value", ["x", "nan", "inf", "1e999", "-1", "1.01", "٣٣"])
def test_a_field_that_cannot_be_read_is_named(value: str) -> None:
    """The error says which field it is."""

    def moment(form: Form) -> object:
        return form.moment("a")

    for read in (
        lambda form: form.number("a", 0, 1),
        lambda form: form.duration("a"),
        lambda form: form.rate("a"),
        moment,
    ):
        with pytest.raises(RequestError) as caught:
            read(Form(a=value))
        assert caught.value.param == "a"


def test_what_is_wrong_is_a_sentence() -> None:
    """With what was typed and what would be right."""
    form = Form(a="abc", b="1.5", c="yesterday")
    for read, words in (
        (lambda: form.number("a", 0, 1), "'abc' is not a number from 0 to 1."),
        (lambda: form.number("b", 0, 1), "'1.5' is not a number from 0 to 1."),
        (lambda: form.whole("b", 1, 1_000_000), "'1.5' is not a whole number from 1 to 1000000."),
        (lambda: form.moment("c"), "'yesterday' is not a time; write it like 2026-05-01T12:00."),
    ):
        with pytest.raises(RequestError) as caught:
            read()
        assert caught.value.detail == words


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("application/x-www-form-urlencoded", b"\xff", 400),
        ("application/x-www-form-urlencoded", b"a=%ff", 400),
        ("application/x-www-form-urlencoded", b"a=1&" * 60, 400),
        ("application/x-www-form-urlencoded", b"a" * 20_000, 413),
    ],
)
async def test_what_is_no_form_is_refused(site: DashboardSite, kind: str, body: bytes, status: int) -> None:
    """Other types, other encodings, too many fields, too much from a stranger."""
    headers = {"Content-Type": kind}
    async with site.stranger.session.post(f"{site.base}/login", data=body, headers=headers) as answer:
        assert answer.status == status


async def test_a_form_of_unknown_length_is_refused(site: DashboardSite) -> None:
    """Browsers know how long their forms are."""

    async def endless():  # type: ignore[no-untyped-def]  # noqa: ANN202
        yield b"name=a"

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with site.stranger.session.post(f"{site.base}/login", data=endless(), headers=headers) as answer:
        assert answer.status == 413


def test_all_problems_of_a_form_are_collected() -> None:
    """Each with its field; one that is about no field ends the check at once."""
    form, checks = Form(rate="often", burst="0", threshold="0.5"), Checks()
    assert checks.read(lambda: form.rate("rate")) is None
    assert checks.read(lambda: form.whole("burst", 1, 10)) is None
    assert checks.read(lambda: form.number("threshold", 0, 1)) == 0.5
    with pytest.raises(RequestError) as caught:
        checks.done()
    assert list(problems_of(caught.value)) == ["rate", "burst"]
    assert caught.value.param == "rate"
    assert problems_of(None) == problems_of(RequestError("no")) == {}
    assert problems_of(RequestError("no", param="a")) == {"a": "no"}
    with pytest.raises(RequestError, match="no"):
        checks.read(_fail)
    Checks().done()


def _fail() -> None:
    raise RequestError("no")
