"""The sentences of third parties: whether they ask for an action, name a tool, or name what it changes."""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

from sidecar.actions.arguments import leaves
from sidecar.actions.conversation import ToolCall
from sidecar.actions.passages import Passage
from sidecar.actions.tool_classes import ToolKind, name_words
from sidecar.actions.vocabulary import mentions, solicited_families

_CORRESPONDENCE = frozenset({"send", "pay"})
"""Families that a letter asks for without meaning the assistant."""
_TOKEN = re.compile(r"[^\W_]{3,}")


class _Sentence(NamedTuple):
    """A sentence without case, and the words of it and its neighbours."""

    text: str
    words: frozenset[str]


class ThirdParties:
    """What stands in prose of a conversation's results. Folded once for all calls of a response."""

    def __init__(self, passages: list[Passage]) -> None:
        self._passages = passages
        self._families: dict[str, frozenset[str]] = {}

    @cached_property
    def _sentences(self) -> list[_Sentence]:
        places = [place for place in self._passages if not place.structured]
        return [
            _Sentence(place.text.casefold(), frozenset(_TOKEN.findall(place.around.casefold()))) for place in places
        ]

    def solicited(self, text: str) -> frozenset[str]:
        """The families of action that a text asks for."""
        if text not in self._families:
            self._families[text] = solicited_families(text)
        return self._families[text]

    def about(self, call: ToolCall, kind: ToolKind) -> list[str]:
        """What they say of a call as a whole, by the names of the evidence."""
        statements = {
            "names_tool": self._name(call.name),
            "requested_there": self._request(kind.families, _nouns(call)),
            "object_named": self._mention(kind.object),
        }
        return [name for name, is_found in statements.items() if is_found]

    def _name(self, tool: str) -> bool:
        return is_distinctive(tool) and any(tool.casefold() in sentence.text for sentence in self._sentences)

    def _request(self, families: frozenset[str], nouns: list[str]) -> bool:
        """Whether they ask for an action of these families and name its object as the tool does."""
        if not families.isdisjoint(_CORRESPONDENCE):
            return False
        near = (sentence.text for sentence in self._sentences if not sentence.words.isdisjoint(nouns))
        return any(self.solicited(text) & families for text in near)

    def _mention(self, delicate: str) -> bool:
        return bool(delicate) and any(mentions(sentence.text, f"named {delicate}") for sentence in self._sentences)


def is_distinctive(tool: str) -> bool:
    """Whether the name of a tool is not a plain word."""
    return bool(re.search(r"[_-]|[a-z][A-Z]", tool))


def _nouns(call: ToolCall) -> list[str]:
    """What a call is about: the words of its name after the first, and values of one word."""
    values = (value.casefold() for _, value in leaves(call.arguments) if _TOKEN.fullmatch(value))
    return [*name_words(call.name)[1:], *(value for value in values if not value.isdigit())]
