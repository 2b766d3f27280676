"""What the user asked for, as far as words tell: families of action, delicate objects, links, pointing at a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from sidecar.actions.tool_classes import ToolKind
from sidecar.actions.vocabulary import COMPATIBLE, RELATED, delegates, mentions, plain, points, requested_families

_TOKEN = re.compile(r"[^\W_]{3,}")
_NAME = re.compile(r"(?<=[^\s.!?:] )([^\W\d_a-z][^\W_]{2,}|[^\W_]*\d[^\W_]*)")
_COMMON = (
    "the and for with from that this all und der die das dem den des ein eine les des una los las que por para von"
)
MAX_END = 32 * 1024
"""Characters of a long text that are read at either end: what a user pastes, the request stands before or after."""


class UserRequest:
    """The user's turns, read for requests when an action is assessed."""

    def __init__(self, text: str) -> None:
        read = text if len(text) <= 2 * MAX_END else f"{text[:MAX_END]}\n{text[-MAX_END:]}"
        self._text = plain(read)  # once: what reads it folds it again, which costs little then

    @cached_property
    def _families(self) -> frozenset[str]:
        return requested_families(self._text)

    @cached_property
    def delegates(self) -> bool:
        """Whether it leaves the choice of the action to the assistant."""
        return delegates(self._text)

    @cached_property
    def points(self) -> bool:
        """Whether it points at what a text says."""
        return points(self._text)

    @cached_property
    def is_about_links(self) -> bool:
        """Whether it is about a link, a page or a form."""
        return mentions(self._text, "links")

    def covers(self, kind: ToolKind) -> bool:
        """Whether it asks for such an action."""
        return not self._is_beside(kind) and bool(self._families & _union(COMPATIBLE, kind.families))

    def implies(self, kind: ToolKind) -> bool:
        """Whether it asks for something that may need such an action."""
        if self._is_beside(kind):
            return False
        return self.delegates or bool(self._families & _union(RELATED, kind.families))

    def _is_beside(self, kind: ToolKind) -> bool:
        """Whether the call changes a delicate object that the request does not mention."""
        if not kind.object or ("pay" in kind.families and "change" not in kind.families):
            return False
        return not mentions(self._text, f"object {kind.object}") and not mentions(self._text, f"named {kind.object}")


class UserWords:
    """The words of the user's turns, by which a value is compared with what they name."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shared: dict[str, int] = {}

    def shared(self, record: str) -> int:
        """How many of them stand in what is beside a value."""
        if record not in self._shared:
            self._shared[record] = len(self.all & words_of(record))
        return self._shared[record]

    def named(self, sentence: str) -> int:
        """How many of the user's names stand in a sentence; -1 for none, which is less than in any field."""
        return len(self._names & words_of(sentence)) or -1

    def said(self, value: str) -> bool:
        """Whether a value stands anywhere in the user's turns."""
        return plain(value) in plain(self._text)

    @cached_property
    def all(self) -> frozenset[str]:
        """All of them, without the most common ones."""
        return words_of(self._text) - frozenset(_COMMON.split())

    @cached_property
    def _names(self) -> frozenset[str]:
        """Words with a capital that do not begin a sentence, and words with digits."""
        return frozenset(hit.group(1).casefold() for hit in _NAME.finditer(self._text)) & self.all


def words_of(text: str) -> frozenset[str]:
    """The words of a text of three letters or more."""
    return frozenset(_TOKEN.findall(text.casefold()))


def _union(table: Mapping[str, frozenset[str]], names: Iterable[str]) -> frozenset[str]:
    return frozenset(word for name in names for word in table.get(name, ()))
