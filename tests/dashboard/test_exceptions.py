"""Decisions marked as false positives."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from dashboard import FINDING, Desk, entry

from sidecar.dashboard.exceptions import exceptable, state, suggestion
from sidecar.dashboard.pages import visible
from sidecar.storage import RuleException

MARKED = {**FINDING, "digest": "d1"}
FORM = {"reason": "Our own <b>docs</b>", "lasts": "7d", "scope": "all"}
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def mark(desk: Desk, **fields: str) -> int:
    """Press the button on the one decision; the status."""
    path = f"/decisions/{entry().id}"
    return (await desk.ada.post(f"{path}/exception", {**FORM, **fields}, page="/account")).status


async def test_a_marked_decision_excepts_its_rules(desk: Desk) -> None:
    """Each that was worth a block, on the text that it was met in; with author, reason and an audit entry."""
    other = {**FINDING, "rule": "INJ-2", "digest": ""}
    await desk.store.decisions.add([entry(findings=[MARKED, MARKED, other])])
    page = await desk.ada.get(f"/decisions/{entry().id}")
    assert "False positive?" in page.text
    assert await mark(desk) == 303
    (exception,) = await desk.store.exceptions.query()
    assert (exception.rule, exception.digest, exception.author, exception.key_id, exception.decision) == (
        "INJ-1",
        "d1",
        "ada",
        None,
        entry().id,
    )
    assert exception.reason == FORM["reason"]
    assert timedelta(days=6) < exception.expires_at - datetime.now(UTC) <= timedelta(days=7)
    listed = await desk.vic.get("/exceptions?done=added")
    assert "INJ-1 holds every key Our own <b>docs</b> ada" in listed.text
    assert "Revoke" not in listed.text
    (event,) = await desk.store.audit.query(action="exception_added")
    assert (event.actor, event.target) == ("ada", exception.id)


async def test_an_exception_may_hold_for_one_key_alone(desk: Desk) -> None:
    """The one whose decision it was."""
    key, _ = await desk.dependencies.keyring.create("shop")
    await desk.store.decisions.add([entry(findings=[MARKED], key_id=key.id)])
    assert await mark(desk, scope="key") == 303
    assert [exception.key_id for exception in await desk.store.exceptions.query()] == [key.id]
    assert "shop" in (await desk.ada.get("/exceptions")).text


@pytest.mark.parametrize(
    "fields", [{"reason": ""}, {"reason": "x" * 501}, {"lasts": "soon"}, {"lasts": "9999d"}, {"scope": "moon"}]
)
async def test_a_wrong_form_excepts_nothing(desk: Desk, fields: dict[str, str]) -> None:
    """Without a reason, for ever, or for nobody knows whom."""
    await desk.store.decisions.add([entry(findings=[MARKED])])
    assert await mark(desk, **fields) == 400
    assert await desk.store.exceptions.query() == []


async def test_only_what_was_worth_a_block_can_be_excepted(desk: Desk) -> None:
    """Other decisions have no button, and viewers have none at all."""
    assert await mark(desk) == 400
    await desk.store.decisions.add([entry()])
    assert "False positive?" not in (await desk.ada.get(f"/decisions/{entry().id}")).text
    assert await mark(desk) == 400
    await desk.store.decisions.add([entry(1, findings=[MARKED])])
    assert "False positive?" not in (await desk.vic.get(f"/decisions/{entry(1).id}")).text


async def test_an_exception_can_be_revoked(desk: Desk) -> None:
    """Once; the list and the audit trail say by whom."""
    await desk.store.decisions.add([entry(findings=[MARKED])])
    await mark(desk)
    (exception,) = await desk.store.exceptions.query()
    path = f"/exceptions/{exception.id}/revoke"
    assert (await desk.vic.post(path, page="/account")).status == 403
    assert (await desk.ada.post(path, page="/exceptions")).location == "/exceptions?done=revoked"
    assert "INJ-1 revoked by ada" in (await desk.ada.get("/exceptions")).text
    assert (await desk.ada.post(path, page="/exceptions")).status == 404
    assert [event.target for event in await desk.store.audit.query(action="exception_revoked")] == [exception.id]


def test_states_follow_the_clock() -> None:
    """It holds, has run out, or was taken back."""
    exception = RuleException("e", "INJ-1", "d", "r", "ada", NOW, NOW + timedelta(days=1))
    assert state(exception, NOW) == "holds"
    assert state(exception, exception.expires_at) == "expired"
    assert state(replace(exception, revoked_at=NOW), NOW) == "revoked"


@pytest.mark.parametrize(
    "text", ['it\'s "fine": [x] # no', "two\nlines\\", "\u202e<script>", "é 中", "a\u200b\U000e0041b 😀"]
)
def test_the_suggested_line_is_yaml_that_means_the_text(text: str) -> None:
    """Whatever is in it; a text that is not kept is left to whoever pastes it."""
    line = suggestion(entry(text=text), ["INJ-1"])
    assert yaml.safe_load(line) == {"no_match": [text]}
    assert "hidden-char" not in visible(line, lines=True)  # a box with a number would be copied along
    assert "does not hold" in suggestion(entry(), ["INJ-1"])
    assert exceptable(entry(findings=[MARKED, {**MARKED, "rule": "A"}])) == [("A", "d1"), ("INJ-1", "d1")]
