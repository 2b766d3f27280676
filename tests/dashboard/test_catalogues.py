"""The pinned tools of MCP servers."""

from __future__ import annotations

from dashboard import NOW, DashboardSite

from sidecar.dashboard.catalogues import PAGE, Server, servers
from sidecar.extraction.shadowed_tools import shadows
from sidecar.storage import Pin, state_of

HOSTILE = "<script>alert(1)</script>\u202e"
PINS = [
    Pin("mail", "send_mail", "a" * 64, "b" * 64, NOW, NOW),
    Pin("mail", "read", "c" * 64, "c" * 64, NOW),
    Pin("mail", "wipe", None, "d" * 64, NOW, NOW),
    Pin("notes", "SEND_MAIL", "e" * 64, "e" * 64, NOW),
    Pin("notes", HOSTILE, "f" * 64, None, NOW, NOW),
]


def test_servers_are_counted_those_with_changes_first() -> None:
    """Tools that are listed today, changes, and names that another server has."""
    assert servers(PINS, shadows(PINS)) == [
        Server("mail", 3, 2, 1, state_of(PINS[:3])),
        Server("notes", 1, 1, 1, state_of(PINS[3:])),
    ]
    assert servers([], {}) == []


async def test_the_page_shows_tools_and_drift(site: DashboardSite) -> None:
    """Of all servers or of one, all tools or what needs a look; names are text; viewers have no buttons."""
    assert "No server has listed its tools" in (await site.vic.get("/mcp")).text
    await site.store.pins.add(PINS)
    page = await site.vic.get("/mcp")
    assert "send_mail mail changed" in page.text
    assert "wipe mail added" in page.text
    assert "read mail as pinned" in page.text
    assert "aaaaaaaaaaaa → bbbbbbbbbbbb" in page.text
    assert HOSTILE[:-1] in page.text
    assert page.reader.tags.count("script") == 1
    assert "Accept" not in page.text
    assert "read mail" not in (await site.vic.get("/mcp?show=drift")).text
    assert "mail read" not in (await site.vic.get("/mcp?server=notes")).text
    assert (await site.vic.get("/mcp?show=x")).status == 400


async def test_drift_is_accepted_and_servers_are_forgotten(site: DashboardSite) -> None:
    """By admins alone, one tool or a whole server, noted in the audit trail; what is not there is said."""
    await site.store.pins.add(PINS)
    one = {"server": "mail", "tool": "wipe", "seen": state_of([PINS[2]])}
    assert (await site.vic.post("/mcp/accept", one, page="/account")).status == 403
    assert (await site.ada.post("/mcp/accept", one, page="/mcp")).location == "/mcp?done=accepted"
    assert {pin.tool for pin in await site.store.pins.query("mail") if pin.drift} == {"send_mail"}
    assert (await site.ada.post("/mcp/accept", one | {"tool": "no"}, page="/mcp")).status == 409
    await site.ada.post("/mcp/accept", {"server": "mail", "seen": state_of(PINS[:3])}, page="/mcp")
    assert not any(pin.drift for pin in await site.store.pins.query("mail"))
    assert (await site.ada.post("/mcp/forget", {"server": "notes"}, page="/mcp")).location == "/mcp?done=forgotten"
    assert await site.store.pins.query("notes") == []
    assert (await site.ada.post("/mcp/forget", {"server": "notes"}, page="/mcp")).status == 404
    assert (await site.ada.post("/mcp/forget", {}, page="/mcp")).status == 400
    noted = [(event.action, event.target) for event in await site.store.audit.query(action="mcp_pins_accepted")]
    assert noted == [("mcp_pins_accepted", "mail")] * 2
    assert [event.detail for event in await site.store.audit.query(action="mcp_pins_forgotten")] == ["2 tools"]


async def test_what_changed_after_the_page_was_made_is_not_accepted(site: DashboardSite) -> None:
    """A tool or a whole server: what was read is what is pinned, and without it nothing is."""
    await site.store.pins.add(PINS)
    await site.store.pins.see("mail", {"send_mail": "9" * 64}, NOW)
    for form in ({"tool": "send_mail", "seen": state_of([PINS[0]])}, {"seen": state_of(PINS[:3])}, {}):
        page = await site.ada.post("/mcp/accept", {"server": "mail"} | form, page="/mcp")
        assert page.status == 409
        assert "has changed since" in page.text
    assert len([pin for pin in await site.store.pins.query("mail") if pin.drift]) == 2


async def test_many_tools_come_page_by_page(site: DashboardSite) -> None:
    """Every tool once, with the filter in the links."""
    await site.store.pins.add([Pin("big", f"tool-{n:03}.", "a", "a", NOW) for n in range(2 * PAGE + 5)])
    link, seen = "/mcp?server=big", 0
    while link:
        page = await site.vic.get(link)
        seen += page.text.count(". big as pinned")
        link = next((one for one in page.reader.links if f"offset={seen}" in one and "server=big" in one), "")
    assert seen == 2 * PAGE + 5
