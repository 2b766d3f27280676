"""The class of a tool: whether it reads, writes, sends, executes or pays; by setting, else by the words of its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from sidecar.actions.arguments import CODE_ARGUMENTS, PROSE_ARGUMENTS, leaves
from sidecar.actions.atoms import AtomKind, text_atoms
from sidecar.actions.conversation import Tool, ToolCall
from sidecar.actions.tool_words import Action, described_action, foreign_families, named_action
from sidecar.actions.vocabulary import OBJECTS, mentions, names

_NAME_PART = re.compile(r"2[Ff][Aa]|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_DATA_FIELD = re.compile(
    r"(?i)^(?!(?:notify|recipient|to|cc|send|forward|invite|share|deliver)_)(?:.*_)?(?:e_?mail|mail|phone|mobile|address)$"
)
"""Arguments of a write that hold what is stored, not where something goes."""
_DESTINATION = re.compile(
    r"(?i)(?:^|_)(?:to|target|destination|deliver|send|notify|forward|callback|webhook|endpoint)(?:_|$)"
)
_ACCOUNT = re.compile(
    r"(?i)iban|account_?(?:no|number)|wallet|payee|beneficiar|(?:^|_)(?:konto|kontonr|konta|cuenta|compte|conto|rekening|ucet|hesap|clabe)(?:_|$)"
)

_CODE = re.compile(r"[\w)\]]\s*[(|=]|\s-{1,2}\w")
"""A call, a pipe, an assignment or an option."""
_SQL_ARGUMENT = re.compile(r"(?i)^(?:.*_)?(?:sql|query|statement)$")
_SELECT = re.compile(
    r"(?i)\s*(?:(?:select|show|explain|describe)\s"
    r"|with\s+(?:recursive\s+)?\w+\s*(?:\([\w\s,]*\)\s*)?as\s*(?:(?:not\s+)?materialized\s*)?\()[^;]*;?\s*$"
)
"""One statement that reads."""
_CHANGES = re.compile(
    r"(?i)\b(?:insert|update|delete|drop|alter|create|truncate|grant|revoke|into|copy|call|exec\w*|merge"
    r"|set|vacuum|attach|pragma|load|do)\b|\b(?:pg|lo|xp|sp|sys|utl|dbms)_\w+|\b(?:dblink|load_extension|load_file)\b"
)
"""Words and functions by which a statement does more than read."""


_METHODS = frozenset({"post", "put", "patch", "delete"})
"""Words by which the name of a tool says the method of its request."""


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
_CHANGE = frozenset({"change"})
DESCRIBED_OBJECTS = {"rule": "object rule", "role": "object role", "lock": "named lock", "memory": "named memory"}
"""Objects that the description of a tool may say, with their words; those for the others are too common."""
MAX_VERB_PHRASE = 3
"""Words of a description that hold its verb and object."""


def classify(call: ToolCall, tool: Tool | None, settings: Mapping[str, str]) -> ToolKind:
    """The kind of a call, by its tool and by its arguments."""
    kind = _by_name(call.name, tool)
    setting = next((value for pattern, value in settings.items() if fnmatchcase(call.name, pattern)), None)
    if setting is not None:
        return kind._replace(tool_class=ToolClass(setting))
    if "http" in name_words(call.name):
        return _http(call, kind)
    if kind.tool_class is ToolClass.EXECUTES and _is_query(call):
        return ToolKind(ToolClass.READS)
    return _by_arguments(call, kind) if kind.tool_class in {ToolClass.WRITES, ToolClass.SENDS} else kind


def _by_arguments(call: ToolCall, kind: ToolKind) -> ToolKind:
    """A write that names a recipient or an account sends or pays, one that is given code executes."""
    arguments = list(leaves(call.arguments))
    if any(_ACCOUNT.search(name) for name, _ in arguments):
        extra = {"pay"} if kind.tool_class is ToolClass.SENDS else set[str]()
        return kind._replace(tool_class=ToolClass.PAYS, families=kind.families | extra)
    if kind.tool_class is ToolClass.SENDS:
        return kind
    if any(_reaches(name, value) for name, value in arguments):
        return kind._replace(tool_class=ToolClass.SENDS, families=kind.families | {"send"})
    is_code = any(CODE_ARGUMENTS.match(name) and _CODE.search(value) for name, value in arguments)
    return kind._replace(tool_class=ToolClass.EXECUTES) if is_code else kind


def _http(call: ToolCall, kind: ToolKind) -> ToolKind:
    """A request of a method that changes something sends; whatever action was asked for covers it."""
    named = next((word for word in name_words(call.name) if word in _METHODS), "GET")
    method = call.arguments.get("method", named) if isinstance(call.arguments, dict) else named
    if str(method).upper() in {"GET", "HEAD", "OPTIONS"}:
        return ToolKind(ToolClass.READS)
    return kind._replace(tool_class=ToolClass.SENDS, families=frozenset({"send", "change", "run", "share"}))


def _is_query(call: ToolCall) -> bool:
    """Whether all code in the arguments is SQL that only reads; other code may begin with the same words."""
    code = [(name, value) for name, value in leaves(call.arguments) if CODE_ARGUMENTS.match(name)]
    return bool(code) and all(
        _SQL_ARGUMENT.match(name) and _SELECT.match(text) and not _CHANGES.search(text) for name, text in code
    )


def _reaches(name: str, value: str) -> bool:
    if _DATA_FIELD.match(name) or PROSE_ARGUMENTS.match(name) or len(value) > MAX_TARGET:
        return False
    kinds = {atom.kind for atom in text_atoms(value)}
    return AtomKind.EMAIL in kinds or (AtomKind.URL in kinds and bool(_DESTINATION.search(name)))


def _by_name(name: str, tool: Tool | None) -> ToolKind:
    words = name_words(name)
    by_name = named_action(words)
    by_verbs = (
        described_action(tool.description)
        if tool and not (by_name and by_name.is_sure and not _is_write(by_name))
        else None
    )
    foreign = _foreign(words) if by_name is None else None
    if foreign and (by_verbs is None or foreign.reads or _is_write(by_verbs)):
        by_verbs = foreign
    action = _agreed(by_name, by_verbs)
    if action is None:
        return ToolKind(ToolClass.WRITES, _CHANGE)
    is_described = by_name is None and action.families == _CHANGE
    return _kind(action.families, _object(words, tool if is_described else None))


def _agreed(by_name: Action | None, by_verbs: Action | None) -> Action | None:
    """What name and description say together: a noun in the name says less than a verb of the description."""
    if by_name is None or by_verbs is None:
        return by_name or by_verbs
    if _is_write(by_name) and not by_verbs.reads:
        return Action(by_verbs.families | by_name.families)
    if by_name.is_sure or by_verbs.reads:
        return by_name if by_name.is_sure else by_verbs
    is_named = "pay" in by_name.families or _is_write(by_verbs)
    return by_name if is_named else Action(by_name.families & by_verbs.families or by_verbs.families)


def _is_write(action: Action) -> bool:
    return action.families == _CHANGE


def _foreign(words: list[str]) -> Action | None:
    """What the words of a name that is not English say."""
    if words and mentions(words[0], "describes reads"):
        return Action()
    families = frozenset[str]().union(*map(foreign_families, words))
    return Action(families) if families else None


def _kind(families: frozenset[str], delicate: str) -> ToolKind:
    if not families:
        return ToolKind(ToolClass.READS, families, delicate if delicate == "vault" else "")
    tool_class = next(value for family, value in _CLASS_OF.items() if family in families)
    if delicate and tool_class is ToolClass.WRITES:
        tool_class = ToolClass.EXECUTES
    return ToolKind(tool_class, families, delicate)


def _object(words: list[str], tool: Tool | None) -> str:
    """The delicate object that a name says, or the description of a tool whose name says nothing."""
    for kind in OBJECTS:
        if not names(f"tool object {kind}").isdisjoint(words):
            return kind
    by_verbs = " ".join(tool.description.split()[:MAX_VERB_PHRASE]) if tool else ""
    return next((kind for kind, section in DESCRIBED_OBJECTS.items() if mentions(by_verbs, section)), "")


def name_words(name: str) -> list[str]:
    """The words of a name in snake, kebab or camel case."""
    return [word.casefold() for word in _NAME_PART.findall(name)]
