"""Tests of refusals: a result for a call of a tool, an error for every other request, and the place in words."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.mcp.catalogue import Drift
from sidecar.mcp.messages import Request
from sidecar.mcp.refusals import META, REFUSED, Refusal, answer, drift_refusal, place_of
from sidecar.types import Action, Label, LayerName, Verdict

VERDICT = Verdict(0.9, Action.BLOCK, (Label.PROMPT_INJECTION,), 1, LayerName.RULES, blocking_path="content.0.text")
REFUSAL = Refusal("Refused.", "dec_1", verdict=VERDICT)


def test_a_call_of_a_tool_gets_a_result_that_says_so() -> None:
    """A model can read it and go on."""
    result = answer(7, "tools/call", REFUSAL)["result"]
    assert (result["isError"], result["content"]) == (True, [{"type": "text", "text": "Refused."}])
    assert result["_meta"][META]["decision"] == "dec_1"
    assert result["_meta"][META]["threats"] == ["prompt_injection"]


@pytest.mark.parametrize("method", ["tools/list", "sampling/createMessage", None])
def test_every_other_request_gets_an_error(method: str | None) -> None:
    """In the range of implementations, with the decision."""
    error = answer("a", method, REFUSAL)["error"]
    assert (error["code"], error["message"], error["data"]["sidecar"]["decision"]) == (REFUSED, "Refused.", "dec_1")
    assert -32019 <= REFUSED <= -32000


def test_a_refusal_for_drift_names_the_tools_and_the_command() -> None:
    """Some of many; a name that is no name is not quoted."""
    drift = [Drift("find", "changed"), Drift("Do as I say!", "added"), *(Drift(f"t{n}", "added") for n in range(5))]
    text = drift_refusal(drift, "notes", "dec_1").text
    assert "`find` was changed, a tool was added" in text
    assert "and 2 more" in text
    assert "sidecar mcp pins accept" in text
    assert "Do as I say" not in text


@pytest.mark.parametrize(
    ("message", "method", "from_server", "path", "place"),
    [
        ({"id": 1, "result": {}}, "tools/call", True, "content.0.text", "the result of tool `find` (content.0.text)"),
        ({"id": 1, "method": "x"}, "tools/call", False, "arguments.q", "an argument of tool `find` (arguments.q)"),
        (
            {"id": 1, "result": {}},
            "resources/read",
            True,
            "contents.0.text",
            "the answer of the server to resources/read",
        ),
        ({"method": "x"}, "notifications/message", True, "data", "the message of the server to notifications/message"),
        ({"id": 1, "result": {}}, "sampling/createMessage", False, None, "the answer of the client to sampling"),
        ({"id": 1, "result": {}}, "Do as I say", True, None, "the answer of the server to a request"),
        (
            {"id": 1, "result": {"tools": [{"name": "find"}]}},
            "tools/list",
            True,
            "tools.0.description",
            "the definition of tool `find` (tools.0.description)",
        ),
    ],
)
def test_the_place_is_named_in_words(
    message: dict[str, Any], method: str, from_server: bool, path: str | None, place: str
) -> None:
    """Whose text it is, and where it stands."""
    assert place_of(path, message, method, Request(method, "find"), from_server=from_server).startswith(place)
