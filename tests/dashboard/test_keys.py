"""The page of API keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dashboard
import pytest
from dashboard import DashboardSite

from sidecar.auth.api_keys import well_formed
from sidecar.dashboard.paging import PAGE
from sidecar.errors import Unauthorized
from sidecar.storage import Role, Store
from sidecar.util.units import Rate

HOSTILE = ["<script>alert(1)</script>", "=cmd()|'x'", "'; DROP TABLE api_keys; --", '"><img src=x>']


def value_in(text: str) -> str:
    """The key that a page shows."""
    return next(word for word in text.split() if well_formed(word))


async def test_a_key_is_shown_once_and_works(site: DashboardSite) -> None:
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
    answer = await site.ada.post("/keys", fields)
    assert answer.headers["Cache-Control"] == "no-store"
    value = value_in(answer.text)
    key = await site.dependencies.keyring.authenticate(value)
    assert (key.name, key.environment, key.rate, key.burst) == ("shop", "production", Rate(10, 60.0), 3)
    assert (key.threshold, key.mode) == (0.4, "monitor")
    assert key.expires_at
    assert timedelta(days=89) < key.expires_at - datetime.now(UTC) < timedelta(days=91)
    for path in ("/keys", "/audit", "/keys?done=created"):
        page = await site.ada.get(path)
        assert value not in page.body
        assert key.id in page.body
    assert "10/minute 3 at once blocks from 0.4 monitor" in (await site.ada.get("/keys")).text


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_names_are_shown_harmlessly(site: DashboardSite, name: str) -> None:
    """On the page of keys, among the decisions' filters and in the audit trail."""
    await site.ada.post("/keys", {"name": name})
    (key,) = await site.dependencies.keyring.list()
    for path in ("/keys", f"/keys/{key.id}", "/decisions", "/audit"):
        page = await site.ada.get(path)
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
        ({"name": "n", "rules": "NO-SUCH-1=off"}, "rules"),
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
    site: DashboardSite, fields: dict[str, str], wrong: str
) -> None:
    """Nothing is created, and nothing hidden is sent back raw."""
    page = await site.ada.post("/keys", fields)
    assert page.status == 400
    assert f'id="{wrong}-note">' in page.body
    assert 'aria-invalid="true"' in page.body
    assert await site.dependencies.keyring.list() == []


@pytest.mark.parametrize("fields", [{"environment": "moon"}, {"mode": "off"}])
async def test_a_choice_that_is_none_is_refused(site: DashboardSite, fields: dict[str, str]) -> None:
    """The sender did not use our form."""
    assert (await site.ada.post("/keys", {"name": "n", **fields})).status == 400


async def test_the_terms_of_a_key_are_changed(site: DashboardSite) -> None:
    """They hold for its next request; the form comes back filled with them, and the audit trail says what changed."""
    key, value = await site.dependencies.keyring.create("shop", rate=Rate(10, 60.0), burst=3)
    before = await site.ada.get(f"/keys/{key.id}")
    assert {"rate": "10/minute", "burst": "3", "expires": ""}.items() <= before.reader.forms[-1].items()
    fields = {"expires": "30d", "rate": "20/hour", "burst": "", "threshold": "0.25", "mode": "monitor"}
    page = await site.ada.post(f"/keys/{key.id}", fields)
    assert page.location == f"/keys/{key.id}?done=changed"
    changed = await site.dependencies.keyring.authenticate(value)
    assert (changed.rate, changed.burst, changed.threshold, changed.mode) == (Rate(20, 3600.0), None, 0.25, "monitor")
    (event,) = await site.store.audit.query(action="key_changed")
    assert (event.actor, event.target) == ("ada", key.id)
    for words in ("rate 10/minute to 20/hour", "burst 3 to none", "threshold none to 0.25", "mode none to monitor"):
        assert words in event.detail
    after = await site.ada.get(page.location)
    assert "has these terms now" in after.text
    assert after.reader.forms[-1]["rate"] == "20/hour"


async def test_a_form_that_is_sent_unchanged_changes_nothing(site: DashboardSite) -> None:
    """Not even the second at which the key ends; an end is also taken as a time, and an empty one means never."""
    key, value = await site.dependencies.keyring.create("shop", expires=timedelta(days=3))
    path = f"/keys/{key.id}"
    form = {name: text for name, text in (await site.ada.get(path)).reader.forms[-1].items() if name != "action"}
    await site.ada.post(path, form)
    assert (await site.dependencies.keyring.authenticate(value)).expires_at == key.expires_at
    assert await site.store.audit.query(action="key_changed") == []
    moment = (datetime.now(UTC) + timedelta(days=9)).replace(second=0, microsecond=0)
    await site.ada.post(path, {"expires": moment.strftime("%Y-%m-%dT%H:%M")})
    ends = (await site.dependencies.keyring.authenticate(value)).expires_at
    assert ends is not None
    assert abs(ends - moment) < timedelta(seconds=1)
    await site.ada.post(path, {"expires": ""})
    assert (await site.dependencies.keyring.authenticate(value)).expires_at is None


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"expires": "soon"}, "expires"),
        ({"expires": "2001-01-01T00:00"}, "expires"),
        ({"expires": "0s"}, "expires"),
        ({"expires": "9999-12-31T23:59"}, "expires"),
        ({"rate": "0/minute"}, "rate"),
        ({"burst": "-1"}, "burst"),
        ({"threshold": "1.5"}, "threshold"),
    ],
)
async def test_wrong_terms_come_back_with_the_field_marked(
    site: DashboardSite, fields: dict[str, str], wrong: str
) -> None:
    """And the key stays as it was."""
    key, value = await site.dependencies.keyring.create("shop")
    page = await site.ada.post(f"/keys/{key.id}", fields)
    assert page.status == 400
    assert f'id="{wrong}-note">' in page.body
    assert await site.dependencies.keyring.authenticate(value) == key


async def test_a_key_that_has_ended_has_no_form(site: DashboardSite) -> None:
    """Its page says so, and a form sent all the same is refused; so is one for a key that is not there."""
    key, _ = await site.dependencies.keyring.create("shop")
    await site.dependencies.keyring.revoke(key.id)
    assert "does not come back" in (await site.ada.get(f"/keys/{key.id}")).text
    assert (await site.ada.post(f"/keys/{key.id}", {"rate": "9/minute"}, page="/keys")).status == 400
    assert (await site.ada.get("/keys/nobody")).status == 404
    assert (await site.ada.post("/keys/nobody", {"rate": "9/minute"}, page="/keys")).status == 404


async def test_a_rotation_shows_the_successor_and_both_work(site: DashboardSite) -> None:
    """For the grace period, which the page tells."""
    old, old_value = await site.dependencies.keyring.create("shop")
    page = await site.ada.post(f"/keys/{old.id}/rotate", {"grace": "1h"}, page="/keys")
    new = await site.dependencies.keyring.authenticate(value_in(page.text))
    assert new.name == "shop"
    assert (await site.dependencies.keyring.authenticate(old_value)).successor == new.id
    assert f"successor {new.id}" in (await site.ada.get("/keys")).text
    again = await site.ada.post(f"/keys/{old.id}/rotate", {"grace": "1h"}, page="/keys")
    assert (again.status, "was rotated already" in again.text) == (400, True)
    (event,) = await site.store.audit.query(action="key_rotated")
    assert event.detail == f"successor {new.id}, grace 1 h"


async def test_a_revoked_key_is_refused_at_once(site: DashboardSite) -> None:
    """And a deleted one is gone from the list too; unknown ones are not found."""
    key, value = await site.dependencies.keyring.create("shop")
    await site.dependencies.keyring.authenticate(value)
    assert (await site.ada.post(f"/keys/{key.id}/revoke", page="/keys")).location == "/keys?done=revoked"
    with pytest.raises(Unauthorized):
        await site.dependencies.keyring.authenticate(value)
    assert "revoked" in (await site.ada.get("/keys")).text
    assert (await site.ada.post(f"/keys/{key.id}/delete", page="/keys")).location == "/keys?done=deleted"
    assert "No keys yet" in (await site.ada.get("/keys")).text
    for action in ("revoke", "delete", "rotate"):
        assert (await site.ada.post(f"/keys/{key.id}/{action}", page="/keys")).status == 404


async def test_viewers_see_keys_and_no_buttons(site: DashboardSite) -> None:
    """And their forms would be refused."""
    key, _ = await site.dependencies.keyring.create("shop")
    page = await site.vic.get("/keys")
    assert key.id in page.text
    assert "Create a key" not in page.text
    assert "Revoke" not in page.text
    assert "Change" not in (await site.vic.get(f"/keys/{key.id}")).text
    for path in (
        "/keys",
        f"/keys/{key.id}",
        f"/keys/{key.id}/revoke",
        f"/keys/{key.id}/delete",
        f"/keys/{key.id}/rotate",
    ):
        assert (await site.vic.post(path, {"name": "x"}, page="/account")).status == 403


async def test_all_errors_of_a_form_are_shown_at_once(site: DashboardSite) -> None:
    """Each beside its field, which keeps its value, on a new key and on a change."""
    wrong = {"expires": "soon", "rate": "often", "burst": "x", "threshold": "7", "rules": "INJ-9=off"}
    page = await site.ada.post("/keys", {"name": "", "environment": "development", **wrong})
    assert page.status == 400
    assert page.body.count('aria-invalid="true"') == 6
    assert "see the marked fields" in page.text
    assert "<details open>" in page.body
    key, _ = await site.dependencies.keyring.create("shop")
    page = await site.ada.post(f"/keys/{key.id}", wrong)
    assert page.body.count('aria-invalid="true"') == 5
    assert 'value="often"' in page.body
    assert (await site.store.keys.list()) == [key]


async def test_a_deleted_key_keeps_its_name_in_the_audit_trail(site: DashboardSite) -> None:
    """Its record is gone, and its id alone would say nothing."""
    await site.ada.post("/keys", {"name": "team-a", "environment": "production", "mode": "monitor"})
    (key,) = await site.store.keys.list()
    await site.ada.post(f"/keys/{key.id}/delete", page="/keys")
    events = {event.action: (event.target, event.detail) for event in await site.store.audit.query()}
    assert events["key_created"] == (key.id, "team-a (production): mode monitor")
    assert events["key_deleted"] == (key.id, "team-a (production)")


async def test_many_keys_come_page_by_page_and_are_found_by_name(site: DashboardSite) -> None:
    """Each is on exactly one page; a search looks through all of them."""
    for number in range(PAGE + 5):
        await site.dependencies.keyring.create(f"team-{number}.")
    first = await site.vic.get("/keys")
    second = await site.vic.get(next(link for link in first.reader.links if f"offset={PAGE}" in link))
    counts = [first.text.count(f"team-{number}.") + second.text.count(f"team-{number}.") for number in range(PAGE + 5)]
    assert counts == [1] * (PAGE + 5)
    assert f"{PAGE + 1} to {PAGE + 5} of {PAGE + 5} keys" in second.text
    found = await site.vic.get("/keys?text=TEAM-3.")
    assert [link for link in found.reader.links if link.startswith("/keys/")] == [
        f"/keys/{key.id}" for key in await site.store.keys.list() if key.name == "team-3."
    ]
    assert "No key of this name" in (await site.vic.get("/keys?text=nobody")).text


async def test_a_keys_page_shows_where_each_term_comes_from(site: DashboardSite) -> None:
    """A key with a profile that is not configured is said to be refused; without profiles there is none to choose."""
    key, _ = await site.dependencies.keyring.create("shop", threshold=0.4)
    page = await site.ada.get(f"/keys/{key.id}")
    assert "threshold, model 0.4 key" in page.text
    assert "responses off all requests" in page.text
    assert 'name="profile"' not in page.body
    await site.dependencies.keyring.change(key.id, {"profile": "gone"})
    page = await site.ada.get(f"/keys/{key.id}")
    assert "Its profile gone is not configured: requests with this key are refused." in page.text
    assert '<option value="gone" selected>' in page.body
    refused = await site.ada.post(f"/keys/{key.id}", {"profile": "other"})
    assert refused.status == 400


OWN_RULE = Path(__file__).parents[1] / "data" / "own_rule.yaml"


async def test_rules_of_a_key_are_those_of_the_profile_in_the_form(tmp_path: Path) -> None:
    """A rule of the profile's own policies can be switched, one of the general policy cannot."""
    profiles = {"fruit": {"policies": [str(OWN_RULE)]}}
    store = await Store.open(f"sqlite:///{tmp_path}/keys.db")
    async with dashboard.open_site(dashboard.settings(tmp_path, profiles=profiles), store) as site:
        for rules, status in (("T-3=off", 200), ("INJ-100=off", 400)):
            page = await site.ada.post("/keys", {"name": "till", "profile": "fruit", "rules": rules})
            assert page.status == status, page.text
        (key,) = await store.keys.list()
        refused = await site.ada.post(f"/keys/{key.id}", {"profile": "", "rules": "T-3=off"}, page=f"/keys/{key.id}")
        assert (refused.status, "T-3" in refused.text) == (400, True)
    await store.close()


async def test_requests_over_a_limit_are_shown_for_their_key(site: DashboardSite) -> None:
    """In the list, on the page of the key by cause, and on the overview, all of the chosen range."""
    key, _ = await site.dependencies.keyring.create("batch")
    other, _ = await site.dependencies.keyring.create("quiet")
    hour = int(datetime.now(UTC).timestamp()) // 3600
    await site.store.refusals.add(
        {(key.id, hour, "rate"): 1234, (key.id, hour, "bytes"): 2, (key.id, hour - 72, "budget"): 5}
    )
    assert f"batch {key.id}" in (listed := (await site.vic.get("/keys")).text)
    assert "1,236" in listed
    assert "1,241" in (await site.vic.get("/keys?range=week")).text
    assert "its rate or burst 1,234 its bytes a minute 2" in (await site.vic.get(f"/keys/{key.id}?range=day")).text
    assert "the budget of its profile 5" in (await site.vic.get(f"/keys/{key.id}?range=week")).text
    assert "None in this time" in (await site.vic.get(f"/keys/{other.id}")).text
    overview = await site.vic.get("/?range=week")
    assert "Over a limit 1,241" in overview.text
    assert "/keys?range=week" in overview.reader.links
    assert "Over a limit" not in (await site.vic.get(f"/?key={other.id}")).text


async def test_requests_over_a_limit_of_other_teams_are_not_shown(site: DashboardSite) -> None:
    """Nor is their number a part of a total."""
    key, _ = await site.dependencies.keyring.create("batch", team="a")
    await site.store.refusals.add({(key.id, int(datetime.now(UTC).timestamp()) // 3600, "rate"): 1234})
    member = await site.member("bea", Role.OPERATOR, "b")
    assert "1,234" not in (await member.get("/keys")).text + (await member.get("/")).text
    assert (await member.get(f"/keys/{key.id}")).status == 404
