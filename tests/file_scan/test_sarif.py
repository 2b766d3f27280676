"""Tests of SARIF: the required fields of the standard, places, and what was not scanned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sidecar.file_scan.results import FileResult, Place, Position
from sidecar.file_scan.sarif import sarif

RESULTS = [
    FileResult(
        Path("docs/AGENTS.md"),
        places=(
            Place("INJ-1", "prompt_injection", 0.9, "block", Position(2, 3), Position(2, 9)),
            Place("SEM-x", "jailbreak", 0.5, "hint", Position(1, 1), Position(3, 1)),
        ),
    ),
    FileResult(Path("a.png"), problem="binary"),
    FileResult(Path("b.md"), problem="Permission denied", error=True),
]
REQUIRED = {
    "": {"version", "runs"},
    "runs": {"tool"},
    "runs.tool": {"driver"},
    "runs.tool.driver": {"name"},
    "runs.tool.driver.rules": {"id"},
    "runs.results": {"message"},
    "runs.results.message": {"text"},
    "runs.invocations": {"executionSuccessful"},
    "runs.invocations.toolExecutionNotifications": {"message"},
    "runs.invocations.toolExecutionNotifications.message": {"text"},
}
"""The fields that the schema of SARIF 2.1.0 requires of the objects that are used here."""


def objects(value: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every object with its path."""
    if isinstance(value, list):
        return [one for item in value for one in objects(item, path)]
    if not isinstance(value, dict):
        return []
    below = [one for name, child in value.items() for one in objects(child, f"{path}.{name}".strip("."))]
    return [(path, value), *below]


def test_every_object_has_the_fields_that_the_standard_requires() -> None:
    """And none of them is missing from a log without findings."""
    for results in (RESULTS, []):
        log = sarif(results, {"INJ-1": "Cancels"})
        assert log["version"] == "2.1.0"
        for path, value in objects(log):
            assert REQUIRED.get(path, set()) <= set(value), path


def test_a_result_names_rule_level_and_region() -> None:
    """An error for what blocks, a note for a hint; columns are counted in code points."""
    run = sarif(RESULTS, {"INJ-1": "Cancels instructions"})["runs"][0]
    first, second = run["results"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert (first["ruleId"], rules[first["ruleIndex"]], first["level"], second["level"]) == (
        "INJ-1",
        "INJ-1",
        "error",
        "note",
    )
    assert first["message"]["text"].startswith("Cancels instructions")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "docs/AGENTS.md"
    assert place["region"] == {"startLine": 2, "startColumn": 3, "endLine": 2, "endColumn": 9}
    assert run["columnKind"] == "unicodeCodePoints"


def test_what_was_not_scanned_is_said() -> None:
    """A picture is a note; a file that could not be read means that the run did not succeed."""
    invocation = sarif(RESULTS, {})["runs"][0]["invocations"][0]
    assert not invocation["executionSuccessful"]
    assert [note["level"] for note in invocation["toolExecutionNotifications"]] == ["note", "error"]
    assert sarif(RESULTS[:2], {})["runs"][0]["invocations"][0]["executionSuccessful"]


def test_a_place_is_a_reference_as_the_standard_of_urls_defines_it() -> None:
    """Delimiters and bytes that are no Unicode are escaped."""
    paths = [Path("a b#c%41:d.md"), Path(os.fsdecode(b"x/a\xff.md"))]
    notes = sarif([FileResult(path, problem="binary") for path in paths], {})["runs"][0]["invocations"][0]
    places = [note["locations"][0]["physicalLocation"] for note in notes["toolExecutionNotifications"]]
    assert [place["artifactLocation"]["uri"] for place in places] == ["a%20b%23c%2541%3Ad.md", "x/a%FF.md"]
