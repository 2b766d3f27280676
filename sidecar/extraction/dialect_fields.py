"""The field table of each API: what all of them share, and what the API's own module adds.

`KNOWN_NAMES` and the other tables of `field_table` hold for every API. Names that only one API defines count as known
in its bodies alone: elsewhere they are an unknown field, whose names are scanned as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from sidecar.extraction import field_table as shared
from sidecar.protocols import PROTOCOLS
from sidecar.types import Source

_OPAQUE = re.compile(r"[A-Za-z0-9_+/=-]*")


@dataclass(frozen=True, slots=True)
class DialectFields:
    """The meaning of field names in the bodies of one API."""

    known: frozenset[str] = shared.KNOWN_NAMES
    free_form: frozenset[str] = shared.FREE_FORM
    definitions: frozenset[str] = shared.DEFINITIONS
    untrusted: frozenset[str] = shared.RESULTS | shared.DOCUMENTS | shared.THIRD_PARTY
    """Fields that hold what third parties wrote, in a turn of any author."""
    references: frozenset[str] = shared.REFERENCES
    fetches: frozenset[str] = shared.FETCH_FIELDS
    """Paths whose presence lets the provider fetch content that is not in the request."""
    fetching_names: frozenset[str] = shared.FETCH_FIELDS
    """The last names of these paths."""
    media: frozenset[str] = shared.MEDIA
    ids: frozenset[str] = shared.IDS
    opaque: frozenset[str] = shared.OPAQUE
    enums: Mapping[str, frozenset[str]] = field(default_factory=lambda: shared.ENUMS)
    prose: frozenset[str] = shared.PROSE
    roles: Mapping[str, Source] = field(default_factory=lambda: shared.ROLE_SOURCES)
    result_texts: tuple[str, ...] = ()
    """Ends of paths where the text of a tool's result is in an object: it is read in sequence all the same."""
    folded: Mapping[str, str] = field(default_factory=lambda: shared.FOLDED)

    def is_client_named(self, name: str, value: object) -> bool:
        """Whether the names inside this member are chosen by the client."""
        return name not in self.known or (name in self.free_form and isinstance(value, dict))

    def is_id(self, pattern: str, text: str) -> bool:
        """Whether the place and the form of a string say that it is an id or ciphertext, which no layer reads.

        An id may hold a sentence whose words stand apart by signs; the name of a model is read by nobody.
        """
        if pattern not in self.ids:
            return False
        name = pattern.removesuffix("[]").rpartition(".")[2]
        fits = _OPAQUE.fullmatch(text) is not None if name in self.opaque else shared.looks_like_id(text)
        return fits and (name == "model" or not shared.holds_words(text))

    def confusable_with(self, name: str) -> str | None:
        """The known name that a lenient decoder may take this unknown name for, if any."""
        return self.folded.get(shared.fold(name)) if len(name) <= 64 else None


SHARED = DialectFields()
"""The table of OpenAI's and Anthropic's bodies."""


@cache
def fields_of(dialect: str) -> DialectFields:
    """The table of the protocol with this name."""
    added = PROTOCOLS[dialect].fields
    if added is None:
        return SHARED
    names = (
        SHARED.known
        | added.names
        | added.free_form
        | added.definitions
        | added.untrusted
        | added.references
        | added.media
    )
    fetches = SHARED.fetches | added.fetches
    return DialectFields(
        known=names,
        free_form=SHARED.free_form | added.free_form,
        definitions=SHARED.definitions | added.definitions,
        untrusted=SHARED.untrusted | added.untrusted,
        references=SHARED.references | added.references,
        fetches=fetches,
        fetching_names=frozenset(path.rpartition(".")[2] for path in fetches),
        media=SHARED.media | added.media,
        ids=SHARED.ids | added.ids,
        opaque=SHARED.opaque | added.opaque,
        enums={
            **SHARED.enums,
            **{name: SHARED.enums.get(name, frozenset()) | added.enums[name] for name in added.enums},
        },
        prose=SHARED.prose | added.prose,
        roles=added.roles or SHARED.roles,
        result_texts=added.result_texts,
        folded={shared.fold(name): name for name in names},
    )
