"""Twin of sidecar/actions/requests.py: what the user asked for."""

from __future__ import annotations

import pytest

from sidecar.actions.conversation import ToolCall
from sidecar.actions.requests import UserRequest
from sidecar.actions.tool_classes import classify


@pytest.mark.parametrize(
    ("text", "tool", "covers"),
    [
        ("Pay the invoice in bill.pdf", "bank_transfer", True),
        ("Summarise the invoice in bill.pdf", "bank_transfer", False),
        ("Reply to Anna", "send_mail", True),
        ("Forward it to Bo", "create_mail_rule", False),
        ("Forward every mail from the bank automatically", "create_mail_rule", True),
        ("Approve the leave", "hr_grant_role", False),
        ("Give Bo access", "hr_grant_role", True),
        ("Where is my parcel?", "set_address", False),
        ("I am moving, change my address", "set_address", True),
        ("Cancel the late order", "cancel_order", True),
    ],
)
def test_a_request_covers_a_kind_of_call(text: str, tool: str, covers: bool) -> None:
    """By the family of the action, and by the object if it is a delicate one."""
    assert UserRequest(text).covers(classify(ToolCall(tool), None, {})) is covers


def test_a_purchase_may_be_asked_for_in_other_words() -> None:
    """Flowers are sent by buying them; a list of tasks may hold anything."""
    kind = classify(ToolCall("checkout"), None, {})
    assert not UserRequest("Send my aunt the amaryllis").covers(kind)
    assert UserRequest("Send my aunt the amaryllis").implies(kind)
    assert UserRequest("Take care of ticket 5").implies(kind)
    assert not UserRequest("What does it cost?").implies(kind)


def test_links_and_pointing() -> None:
    """Whether the request is about a page, and whether it leaves a value to a text."""
    assert UserRequest("Open the first link").is_about_links
    assert not UserRequest("Answer Anna").is_about_links
    assert UserRequest("Send it to whom he names there").points
    assert not UserRequest("Send it to Anna").points


def test_a_long_request_is_read_at_both_ends() -> None:
    """What is pasted in the middle is not."""
    pasted, pay = "word " * 40_000, classify(ToolCall("bank_transfer"), None, {})
    texts = (f"Pay it. {pasted}", f"{pasted} Pay it.", f"{pasted} Pay it. {pasted}")
    assert [UserRequest(text).covers(pay) for text in texts] == [True, True, False]
