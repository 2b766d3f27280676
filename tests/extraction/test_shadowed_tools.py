"""Tools whose names read the same."""

from __future__ import annotations

from datetime import UTC, datetime

from sidecar.extraction.shadowed_tools import shadows
from sidecar.storage import Pin

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_tools_of_other_servers_with_the_same_name_are_found() -> None:
    """However it is written; a tool that is gone shadows nothing, and a server does not shadow itself."""
    pins = [
        Pin("mail", "send_mail", "1", "1", NOW),
        Pin("notes", "SEND_MAIL", "2", "2", NOW),
        Pin("old", "send_mail", "3", None, NOW),
        Pin("mail", "read", "4", "4", NOW),
    ]
    assert shadows(pins) == {("mail", "send_mail"): ["notes"], ("notes", "SEND_MAIL"): ["mail"]}
