"""The kinds of the second generator by name."""

from __future__ import annotations

from benchmarks.hostile.second.blocks import Kind, of_text
from benchmarks.hostile.second.codings import CODED, CODINGS
from benchmarks.hostile.second.forms import FORMS
from benchmarks.hostile.second.headers import HEADERS
from benchmarks.hostile.second.json_bodies import JSON_BODIES
from benchmarks.hostile.second.texts import TEXTS

KINDS: dict[str, Kind] = {
    **{name: of_text(name, make) for name, make in TEXTS.items()},
    **JSON_BODIES,
    **CODINGS,
    **FORMS,
    **HEADERS,
}
GROWTH: dict[str, int] = {name: growth for name, (_, growth, _) in CODED.items() if growth > 1}
"""How many times larger than their size some bodies are when decoded."""
