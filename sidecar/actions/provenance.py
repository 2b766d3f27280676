"""Looks atoms up: in what user and application said, and in third-party text."""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import cached_property

from sidecar.actions.atoms import Atom, AtomKind, folded, text_atoms
from sidecar.actions.conversation import Conversation, strings
from sidecar.actions.passages import Passage, passages_of

_CONTAINED = frozenset({AtomKind.PATH, AtomKind.IDENTIFIER, AtomKind.COMMAND, AtomKind.PHONE})
"""Kinds that are also found as a part of a text."""


class Provenances:
    """The texts of a conversation, prepared for looking atoms up. Each part is built when it is first needed."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    @cached_property
    def passages(self) -> list[Passage]:
        """All passages of third-party text, the last result's first."""
        return passages_of(self._conversation.results)

    @cached_property
    def user_text(self) -> str:
        """What the user said, all turns."""
        return "\n".join(self._conversation.user)

    @property
    def application_texts(self) -> list[str]:
        """What the application said, without its tools."""
        return self._conversation.application

    @cached_property
    def _trusted(self) -> _Texts:
        return _Texts([*self._conversation.user, *self._conversation.application, *self._tool_texts()])

    @cached_property
    def _by_key(self) -> dict[tuple[AtomKind, str], list[Passage]]:
        index: dict[tuple[AtomKind, str], list[Passage]] = {}
        for passage in self.passages:
            for atom in passage.atoms:
                index.setdefault((atom.kind, atom.key), []).append(passage)
        return index

    @cached_property
    def _folded(self) -> list[str]:
        return [folded(passage.text) for passage in self.passages]

    @cached_property
    def _fields(self) -> dict[AtomKind, list[tuple[Atom, Passage]]]:
        """The atoms in fields by kind."""
        index: dict[AtomKind, list[tuple[Atom, Passage]]] = {}
        for passage in self.passages:
            for atom in passage.atoms if passage.structured else ():
                index.setdefault(atom.kind, []).append((atom, passage))
        return index

    @cached_property
    def _senders(self) -> dict[int, set[str]]:
        hosts: dict[int, set[str]] = {}
        for atom, passage in self._fields.get(AtomKind.EMAIL, []):
            hosts.setdefault(passage.result, set()).add(atom.key.rpartition("@")[2])
        return hosts

    def _tool_texts(self) -> Iterable[str]:
        for tool in self._conversation.tools.values():
            yield tool.description
            yield from strings(tool.parameters)

    def is_trusted(self, atom: Atom) -> bool:
        """Whether user or application have said it."""
        return atom in self._trusted

    def places(self, atom: Atom) -> list[Passage]:
        """The passages of third-party text that hold it."""
        hits = self._by_key.get((atom.kind, atom.key), [])
        if hits or atom.kind not in _CONTAINED:
            return hits
        if atom.kind is AtomKind.COMMAND:
            return [place for place in self.passages if atom.key in folded(place.around)]
        key = (atom.key.rpartition("/")[2] or atom.key) if atom.kind is AtomKind.PATH else atom.key
        texts = zip(self.passages, self._folded, strict=True)
        return [place for place, text in texts if stands_in(key, text)]

    def others(self, atom: Atom) -> Iterable[tuple[Atom, Passage]]:
        """Atoms of the same kind in fields of third-party text, with their passages."""
        return ((other, passage) for other, passage in self._fields.get(atom.kind, []) if other.key != atom.key)

    def senders(self, result: int) -> Set[str]:
        """The hosts of the addresses in the fields of one result: whom a mail is from, who is in a record."""
        return self._senders.get(result, frozenset())


class _Texts:
    """Texts in which atoms are looked up without their place."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = "\n".join(texts)

    @cached_property
    def _folded(self) -> str:
        return folded(self._text)

    @cached_property
    def _keys(self) -> frozenset[tuple[AtomKind, str]]:
        return frozenset((atom.kind, atom.key) for atom in text_atoms(self._text))

    def __contains__(self, atom: object) -> bool:
        if not isinstance(atom, Atom):
            return False
        return (atom.kind, atom.key) in self._keys or stands_in(folded(atom.text), self._folded)


def stands_in(value: str, text: str) -> bool:
    """Whether a value stands in a text, not as a part of a longer word."""
    start = text.find(value)
    while start >= 0:
        if not _in_word(text[start - 1 : start]) and not _in_word(text[start + len(value) : start + len(value) + 1]):
            return True
        start = text.find(value, start + 1)
    return False


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
