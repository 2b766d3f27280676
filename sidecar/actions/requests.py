"""What the user asked for, as far as words tell: families of action, delicate objects, links, pointing at a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from sidecar.actions.tool_classes import ToolKind
from sidecar.actions.vocabulary import COMPATIBLE, RELATED, delegates, mentions, plain, points, requested_families

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


def _union(table: Mapping[str, frozenset[str]], names: Iterable[str]) -> frozenset[str]:
    return frozenset(word for name in names for word in table.get(name, ()))
