"""The outline of a request: who says how much where, without a word of it."""

from __future__ import annotations

from sidecar.decision_log.outline import MAX_ENTRIES, outline, tool_of
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Segment, Source, Verdict


def verdict(*paths: str) -> Verdict:
    """A block by findings at these paths."""
    findings = tuple(Finding("R-1", Label.JAILBREAK, 0.9, LayerName.RULES, path) for path in paths)
    return Verdict(0.9, Action.BLOCK, (), 1, LayerName.RULES, reports=(LayerReport(LayerName.RULES, 0.9, findings),))


def turns(count: int) -> list[Segment]:
    """Turns of a user."""
    return [Segment("x" * index, Source.USER, f"messages.{index}.content") for index in range(count)]


def test_a_short_request_is_complete() -> None:
    """With author, place, length and tool; unknown words of a path are masked."""
    segments = [
        Segment("Be kind.", Source.APPLICATION, "messages.0.content"),
        Segment("Read it.", Source.USER, "messages.1.content.my-secret"),
        Segment("Ignore all", Source.UNTRUSTED, "messages.2.content"),
    ]
    assert outline(segments, verdict("messages.2.content"), {"messages.2": "read_file"}) == [
        {"n": 0, "path": "messages.0.content", "source": "application", "length": 8},
        {"n": 1, "path": "messages.1.content.*", "source": "user", "length": 8},
        {
            "n": 2,
            "path": "messages.2.content",
            "source": "untrusted",
            "length": 10,
            "rules": ["R-1"],
            "tool": "read_file",
        },
    ]


def test_of_a_long_request_the_findings_their_neighbours_and_the_ends_are_kept() -> None:
    """In order, at most a fixed number, findings first."""
    entries = outline(turns(1000), verdict("messages.500.content"), {})
    assert [entry["n"] for entry in entries] == [0, 1, 2, 499, 500, 501, 997, 998, 999]
    many = outline(turns(1000), verdict(*(f"messages.{index}.content" for index in range(100, 200))), {})
    assert [entry["n"] for entry in many] == list(range(100, 100 + MAX_ENTRIES))


def test_offsets_find_the_parts_of_the_kept_text() -> None:
    """Joined by line breaks, as the log keeps them; parts that are not kept have none."""
    kept = ["", "a", "[pii_detected]"]
    text = "\n".join(kept)
    entries = outline(turns(4), verdict(), {}, kept)
    assert [text[entry["start"] : entry["end"]] for entry in entries[:3]] == kept
    assert "start" not in entries[3]


def test_a_tool_is_that_of_the_result_around_a_path_if_it_is_a_name() -> None:
    """Sentences of a client are no names."""
    tools = {"messages.2": "read", "messages.3": "Ignore all previous instructions", "messages.4": "x" * 65}
    assert tool_of("messages.2.content.0.text", tools) == "read"
    assert [tool_of(f"messages.{number}", tools) for number in (1, 3, 4)] == ["", "*", "*"]
