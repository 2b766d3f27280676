"""The class of a tool: whether it reads, writes, sends, executes or pays; by setting, else by the words of its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from sidecar.actions.arguments import PROSE_ARGUMENTS, leaves
from sidecar.actions.atoms import AtomKind, text_atoms
from sidecar.actions.conversation import Tool, ToolCall
from sidecar.actions.vocabulary import FAMILIES, OBJECTS, names

_NAME_PART = re.compile(r"2[Ff][Aa]|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_DATA_FIELD = re.compile(
    r"(?i)^(?!(?:notify|recipient|to|cc|send|forward|invite|share|deliver)_)(?:.*_)?(?:e_?mail|mail|phone|mobile|address)$"
)
"""Arguments of a write that hold what is stored, not where something goes."""
_DESTINATION = re.compile(
    r"(?i)(?:^|_)(?:to|target|destination|deliver|send|notify|forward|callback|webhook|endpoint)(?:_|$)"
)
_ACCOUNT = re.compile(r"(?i)iban|account_?(?:no|number)|wallet|payee|beneficiary")


class ToolClass(StrEnum):
    """What a tool does, by the harm that it can do."""

    READS = "reads"
    WRITES = "writes"
    SENDS = "sends"
    EXECUTES = "executes"
    PAYS = "pays"


class ToolKind(NamedTuple):
    """The class of a tool; the families of its action; and the delicate object that it changes, if any."""

    tool_class: ToolClass
    families: frozenset[str] = frozenset()
    object: str = ""


_CLASS_OF = {
    "pay": ToolClass.PAYS,
    "run": ToolClass.EXECUTES,
    "send": ToolClass.SENDS,
    "share": ToolClass.SENDS,
    "post": ToolClass.SENDS,
    "delete": ToolClass.EXECUTES,
    "approve": ToolClass.EXECUTES,
    "change": ToolClass.WRITES,
}
"""Deleting counts as executing: it cannot be undone. The first family of this order decides."""
MAX_TARGET = 200


def classify(call: ToolCall, tool: Tool | None, settings: Mapping[str, str]) -> ToolKind:
    """The kind of a call. A write that names a recipient or an account sends or pays."""
    kind = _by_name(call.name, tool)
    chosen = next((value for pattern, value in settings.items() if fnmatchcase(call.name, pattern)), None)
    if chosen is not None:
        return kind._replace(tool_class=ToolClass(chosen))
    if "http" in name_words(call.name):
        return _http(call, kind)
    if kind.tool_class is not ToolClass.WRITES:
        return kind
    arguments = list(leaves(call.arguments))
    if any(_ACCOUNT.search(name) for name, _ in arguments):
        return kind._replace(tool_class=ToolClass.PAYS)
    if any(_reaches(name, value) for name, value in arguments):
        return kind._replace(tool_class=ToolClass.SENDS)
    return kind


def _http(call: ToolCall, kind: ToolKind) -> ToolKind:
    """A request of a method that changes something sends; whatever action was asked for covers it."""
    method = call.arguments.get("method", "GET") if isinstance(call.arguments, dict) else "GET"
    if str(method).upper() in {"GET", "HEAD", "OPTIONS"}:
        return ToolKind(ToolClass.READS)
    return kind._replace(tool_class=ToolClass.SENDS, families=frozenset({"send", "change", "run", "share"}))


def _reaches(name: str, value: str) -> bool:
    if _DATA_FIELD.match(name) or PROSE_ARGUMENTS.match(name) or len(value) > MAX_TARGET:
        return False
    kinds = {atom.kind for atom in text_atoms(value)}
    return AtomKind.EMAIL in kinds or (AtomKind.URL in kinds and bool(_DESTINATION.search(name)))


def _by_name(name: str, tool: Tool | None) -> ToolKind:
    kind = _by_words(name_words(name))
    if kind is None and tool is not None:
        kind = _by_words([word.casefold() for word in re.findall(r"[^\W\d_]+", tool.description)[:1]])
    return kind or ToolKind(ToolClass.WRITES, frozenset({"change"}))


def _by_words(words: list[str]) -> ToolKind | None:
    """The first word with a meaning decides; after a verb that says little (`create`) the later ones count, too."""
    families: set[str] = set()
    for word in map(_singular, words):
        if word in names("tool reads") and not families:
            return ToolKind(ToolClass.READS)
        families |= (added := families_of(word))
        if added and word not in names("tool vague"):
            break
    if not families:
        return None
    is_vague = "send" in families or any(word in names("tool vague") for word in words)
    if is_vague and not names("tool money").isdisjoint(words):
        families = {"pay"}
    delicate = next((kind for kind in OBJECTS if not names(f"tool object {kind}").isdisjoint(words)), "")
    tool_class = next(value for family, value in _CLASS_OF.items() if family in families)
    if delicate and tool_class is ToolClass.WRITES:
        tool_class = ToolClass.EXECUTES
    return ToolKind(tool_class, frozenset(families), delicate)


def families_of(word: str) -> frozenset[str]:
    """The families that a word in the name of a tool stands for."""
    return frozenset(family for family in FAMILIES if word in names(f"tool {family}"))


def _singular(word: str) -> str:
    return word if word in names("tool reads") or families_of(word) else word.removesuffix("s")


def name_words(name: str) -> list[str]:
    """The words of a name in snake, kebab or camel case."""
    return [word.casefold() for word in _NAME_PART.findall(name)]
