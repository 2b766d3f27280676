"""Harmless traffic passes: whole conversations, the smallest reproductions of old false positives, and identifiers.

Scanned as the inline door scans them, with the default configuration and the shipped model. The aim is that none is
refused; the ceilings are what was measured on 2026-11-26, to be lowered and never raised.
"""

from __future__ import annotations

import json
from typing import Any

import identifiers
import pytest
import traffic

from benchmarks import traffic_sample
from sidecar.config import Settings
from sidecar.evaluation import Outcome, Row

SAMPLE_CEILING, REPRODUCTIONS_CEILING = 11, 9
"""Measured: 10 of 69 and 8 of 48, all by the model; and one more each, since its scores depend on the processor."""
FIELDS_CEILING = 2
"""Of 3,021 identifiers as names of unknown fields two: `get_system_prompt` by a rule, a dated name by the model."""
DEFAULTS = Settings.model_validate({"scan": {"deadline": "10m"}})
"""But for the deadline: what is refused here does not depend on how busy the machine is."""
SAMPLE = list(traffic_sample.rows())
REPRODUCTIONS = [
    json.loads(line) for line in (traffic_sample.FOLDER / "reproductions.jsonl").read_text("utf-8").splitlines()
]


def test_the_sample_is_what_people_send() -> None:
    """Agents with ten to sixty tools, long requests, a dozen languages, five dialects."""
    offered = [len(one["body"].get("tools", ())) for one in SAMPLE]
    sizes = [row.bytes for row in traffic.rows(SAMPLE)]
    assert len(SAMPLE) >= 60
    assert sum(10 <= count <= 60 for count in offered) >= 20
    assert max(offered) <= 60
    assert sum(size > 8_000 for size in sizes) >= 10
    assert len({one["lang"] for one in SAMPLE}) >= 12
    assert {one["dialect"] for one in SAMPLE} == {"chat", "responses", "messages", "completions", "embeddings"}


@pytest.mark.timeout(600)
async def test_no_more_of_the_sample_is_refused_than_was_measured() -> None:
    """What could not be scanned counts, too."""
    assert len(traffic.refused(await traffic.outcomes(SAMPLE, DEFAULTS))) <= SAMPLE_CEILING


@pytest.mark.timeout(600)
async def test_no_more_old_false_positives_are_refused_than_was_measured() -> None:
    """Tool names, enums, install lines, templates, short orders: each was refused once."""
    assert len(REPRODUCTIONS) >= 40
    assert len(traffic.refused(await traffic.outcomes(REPRODUCTIONS, DEFAULTS))) <= REPRODUCTIONS_CEILING


@pytest.fixture(scope="module")
def words() -> list[str]:
    """Enum values and field names of two APIs, and names as tools and their properties have them."""
    return identifiers.everything()


def test_the_identifiers_are_those_of_the_sdks_and_a_list(words: list[str]) -> None:
    """Thousands in all, 500 of tools and 500 of properties among them."""
    assert (len(identifiers.TOOLS), len(identifiers.PROPERTIES)) >= (500, 500)
    assert len(words) > 2_000
    assert {"tool_choice", "computer_use_preview", "ephemeral"} <= set(words)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", identifiers.PLACES)
async def test_no_identifier_is_refused(words: list[str], place: str) -> None:
    """Each alone, as name of a tool, as property, as enum value, and as field that no table knows and its value."""
    bodies = [identifiers.body(place, word) for word in words]
    found = await traffic.outcomes(bodies, DEFAULTS)
    assert len(traffic.refused(found)) <= (FIELDS_CEILING if place == "field" else 0)


def test_what_did_not_pass_is_named() -> None:
    """The helper of these tests says which, why and where."""
    row = Row("x", "", frozenset(), True)
    assert traffic.refused([Outcome(row, traffic.BLOCK, 0.1)]) == ["x: rules at None (0.9)"]


def test_nothing_of_the_sample_is_stored_twice() -> None:
    """Ids are unique, and what is generated is the same each time."""
    assert len({one["id"] for one in [*SAMPLE, *REPRODUCTIONS]}) == len(SAMPLE) + len(REPRODUCTIONS)
    again: list[dict[str, Any]] = list(traffic_sample.rows())
    assert again == SAMPLE
