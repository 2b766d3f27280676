"""The page of API keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from dashboard import Desk

from sidecar.apikeys import well_formed
from sidecar.errors import Unauthorized
from sidecar.units import Rate

HOSTILE = ["<script>alert(1)</script>", "=cmd()|'x'", "'; DROP TABLE api_keys; --", '"><img src=x>']


def value_in(text: str) -> str:
    """The key that a page shows."""
    return next(word for word in text.split() if well_formed(word))


async def test_a_key_is_shown_once_and_works(desk: Desk) -> None:
    """With everything that was asked for; no other page, and no audit entry, holds its value."""
    fields = {
        "name": "shop",
        "environment": "production",
        "expires": "90d",
        "rate": "10/minute",
        "burst": "3",
        "threshold": "0.4",
        "mode": "monitor",
    }
    seen = await desk.ada.post("/keys", fields)
    assert seen.headers["Cache-Control"] == "no-store"
    value = value_in(seen.text)
    key = await desk.parts.keyring.authenticate(value)
    assert (key.name, key.environment, key.rate, key.burst) == ("shop", "production", Rate(10, 60.0), 3)
    assert (key.threshold, key.mode) == (0.4, "monitor")
    assert key.expires_at
    assert timedelta(days=89) < key.expires_at - datetime.now(UTC) < timedelta(days=91)
    for path in ("/keys", "/audit", "/keys?done=created"):
        page = await desk.ada.get(path)
        assert value not in page.body
        assert key.id in page.body
    assert "10 per 1 min, 3 at once blocks from 0.4 monitor" in (await desk.ada.get("/keys")).text


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_names_are_shown_harmlessly(desk: Desk, name: str) -> None:
    """On the page of keys, among the decisions' filters and in the audit trail."""
    await desk.ada.post("/keys", {"name": name})
    for path in ("/keys", "/decisions", "/audit"):
        page = await desk.ada.get(path)
        assert name in page.text
        assert page.reader.tags.count("script") == 1
        assert page.reader.tags.count("img") == 1


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\r\nb"}, "name"),
        ({"name": "\u202eevil"}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "n", "expires": "soon"}, "expires"),
        ({"name": "n", "expires": "99999d"}, "expires"),
        ({"name": "n", "expires": "0s"}, "expires"),
        ({"name": "n", "rate": "lots"}, "rate"),
        ({"name": "n", "burst": "0"}, "burst"),
        ({"name": "n", "threshold": "2"}, "threshold"),
        ({"name": "n", "threshold": "nan"}, "threshold"),
    ],
)
async def test_a_form_that_is_wrong_comes_back_with_the_field_marked(
    desk: Desk, fields: dict[str, str], wrong: str
) -> None:
    """Nothing is created, and nothing hidden is sent back raw."""
    seen = await desk.ada.post("/keys", fields)
    assert seen.status == 400
    assert f'id="{wrong}-note">' in seen.body
    assert 'aria-invalid="true"' in seen.body
    assert await desk.parts.keyring.list() == []


@pytest.mark.parametrize("fields", [{"environment": "moon"}, {"mode": "off"}])
async def test_a_choice_that_is_none_is_refused(desk: Desk, fields: dict[str, str]) -> None:
    """Whoever sends it did not use our form."""
    assert (await desk.ada.post("/keys", {"name": "n", **fields})).status == 400


async def test_a_rotation_shows_the_successor_and_both_work(desk: Desk) -> None:
    """For the grace period, which the page tells."""
    old, old_value = await desk.parts.keyring.create("shop")
    seen = await desk.ada.post(f"/keys/{old.id}/rotate", {"grace": "1h"}, page="/keys")
    new = await desk.parts.keyring.authenticate(value_in(seen.text))
    assert new.name == "shop"
    assert (await desk.parts.keyring.authenticate(old_value)).successor == new.id
    assert f"successor {new.id}" in (await desk.ada.get("/keys")).text
    again = await desk.ada.post(f"/keys/{old.id}/rotate", {"grace": "1h"}, page="/keys")
    assert (again.status, "was rotated already" in again.text) == (400, True)
    (event,) = await desk.store.audit.query(action="key_rotated")
    assert event.detail == f"successor {new.id}, grace 1 h"


async def test_a_revoked_key_is_refused_at_once(desk: Desk) -> None:
    """And a deleted one is gone from the list too; unknown ones are not found."""
    key, value = await desk.parts.keyring.create("shop")
    await desk.parts.keyring.authenticate(value)
    assert (await desk.ada.post(f"/keys/{key.id}/revoke", page="/keys")).location == "/keys?done=revoked"
    with pytest.raises(Unauthorized):
        await desk.parts.keyring.authenticate(value)
    assert "revoked" in (await desk.ada.get("/keys")).text
    assert (await desk.ada.post(f"/keys/{key.id}/delete", page="/keys")).location == "/keys?done=deleted"
    assert "No keys yet" in (await desk.ada.get("/keys")).text
    for action in ("revoke", "delete", "rotate"):
        assert (await desk.ada.post(f"/keys/{key.id}/{action}", page="/keys")).status == 404


async def test_viewers_see_keys_and_no_buttons(desk: Desk) -> None:
    """And their forms would be refused."""
    key, _ = await desk.parts.keyring.create("shop")
    page = await desk.vic.get("/keys")
    assert key.id in page.text
    assert "Create a key" not in page.text
    assert "Revoke" not in page.text
    for path in ("/keys", f"/keys/{key.id}/revoke", f"/keys/{key.id}/delete", f"/keys/{key.id}/rotate"):
        assert (await desk.vic.post(path, {"name": "x"}, page="/account")).status == 403
