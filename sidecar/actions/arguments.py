"""The atoms in the arguments of a tool call, with the names of the arguments that hold them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sidecar.actions.atoms import Atom, AtomKind, folded, links, text_atoms
from sidecar.util import json

PROSE_ARGUMENTS = re.compile(
    r"(?i)^(?:.*_)?(?:body|text|bodytext|html|message|content|subject|notes?|comment|description|title|summary|reason|reference"
    r"|caption|markdown|memo|agenda|details|remarks?|greeting|prompt|question|answer|snippet|name|currency|language|timezone)$"
)
"""Arguments that hold words for people: their values are not looked up."""
CODE_ARGUMENTS = re.compile(
    r"(?i)^(?:.*_)?(?:command|cmd|args?|argv|code|script|sql|query|source|program|shell|statement|formula|befehl)s?$"
)
"""Arguments that a machine runs."""
TARGETS = frozenset({AtomKind.EMAIL, AtomKind.URL, AtomKind.HOST, AtomKind.ACCOUNT, AtomKind.PHONE})
"""Kinds that say whom an action reaches."""
IN_LONG_VALUES = frozenset({AtomKind.EMAIL, AtomKind.URL, AtomKind.HOST, AtomKind.ACCOUNT})
MAX_WORDS = 20
"""Words from which on a value is prose."""
MAX_VALUE = 200
"""Characters up to which a value as a whole may be a phone number, path or identifier."""
MAX_ARGUMENTS = 200
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.+Z-]*)?|\d{1,2}:\d{2}(?::\d{2})?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_ACCOUNT_NAME = re.compile(
    r"(?i)account|iban|routing|sort_?code|kont[oa]|clabe|wallet|bic|cuenta|compte|conto(?:_|$)|rekening|ucet|hesap"
)
MIN_ACCOUNT = 16
"""Digits from which a number is an account, whatever its argument is called: no phone number is as long."""
_WORD = re.compile(r"[^\W\d_]{1,20}")
_NUMBER = re.compile(r"[-+]?[\d.,' ]{1,20}")


@dataclass(frozen=True, slots=True)
class Argument:
    """An atom of a call and the name of the argument that holds it."""

    name: str
    atom: Atom


def leaves(arguments: Any) -> Iterator[tuple[str, str]]:
    """The values in the arguments with their names, however deep; JSON in a text is read, too."""
    stack: list[tuple[str, Any]] = [("", arguments)]
    while stack:
        name, value = stack.pop()
        value = json.embedded(value) if isinstance(value, str) else value
        if isinstance(value, dict):
            stack += [(str(key), child) for key, child in reversed(value.items())]
        elif isinstance(value, list):
            stack += [(name, child) for child in reversed(value)]
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield name, json.encodable(str(value))


def flags_of(arguments: Any) -> Iterator[str]:
    """The names of arguments that are true or false, however deep; JSON in a text is read, too."""
    stack = [arguments]
    while stack:
        value = stack.pop()
        value = json.embedded(value) if isinstance(value, str) else value
        if isinstance(value, dict):
            yield from (str(name) for name, child in value.items() if isinstance(child, bool))
            stack += reversed(value.values())
        elif isinstance(value, list):
            stack += reversed(value)


def is_larger(value: Any, limit: int) -> bool:
    """Whether a value has more than so many characters in all texts and names; each value counts as one, too."""
    stack, size = [value], 0
    while stack and size <= limit:
        item = stack.pop()
        size += 1 + (len(item) if isinstance(item, str) else 0)
        if isinstance(item, dict):
            stack += [*item, *item.values()]
        elif isinstance(item, list):
            stack += item
    return size > limit


def arguments_of(value: Any, without: Set[str] = frozenset()) -> Iterator[Argument]:
    """The atoms of a call's arguments that say whom or what it reaches. `without`: names of arguments to leave out."""
    seen: set[tuple[AtomKind, str]] = set()
    for name, text in leaves(value):
        if name in without:
            continue
        for atom in _atoms(name, text.strip()):
            if (atom.kind, atom.key) not in seen and len(seen) < MAX_ARGUMENTS:
                seen.add((atom.kind, atom.key))
                yield Argument(name, atom)


def links_of(value: Any, without: Set[str] = frozenset()) -> Iterator[Argument]:
    """The links in the arguments that hold words for people, of which a client may fetch the pictures by itself."""
    prose = ((name, text) for name, text in leaves(value) if name not in without and PROSE_ARGUMENTS.match(name))
    urls = ((name, url) for name, text in prose if "://" in text for url in links(text))
    yield from (Argument(name, Atom(AtomKind.URL, url, url)) for name, url in islice(urls, MAX_ARGUMENTS))


def _atoms(name: str, text: str) -> Iterator[Atom]:
    if CODE_ARGUMENTS.match(name) and " " in text:
        yield Atom(AtomKind.COMMAND, folded(text).rstrip(";"), text)
        return
    if PROSE_ARGUMENTS.match(name):
        return
    if len(text) > MAX_VALUE:
        yield from (atom for atom in text_atoms(text) if atom.kind in IN_LONG_VALUES and _is_target(atom, name))
        return
    if _DATE.fullmatch(text) or (_NUMBER.fullmatch(text) and len(text) < 6) or _WORD.fullmatch(text):
        return
    is_path = ("/" in text or "\\" in text) and "://" not in text and " " not in text and not text[0].isdigit()
    targets = [] if is_path else [atom for atom in text_atoms(text) if _is_target(atom, name)]
    if targets:
        yield from targets
    elif len(text.split()) > MAX_WORDS:
        return
    elif "," in text or ";" in text:
        parts = [part.strip() for part in re.split("[,;]", text)]
        yield from (_plain(part) for part in parts if len(part) > 4 and re.search(r"\d", part))
    elif len(text) > 1 and not _NUMBER.fullmatch(text) and (text.count(" ") < 2 or re.search(r"\d", text)):
        yield _plain(text)


def _is_target(atom: Atom, name: str) -> bool:
    """Digits are an account or a phone number, as the name of the argument says."""
    if atom.kind is AtomKind.ACCOUNT and atom.key.isdigit():
        return len(atom.key) >= MIN_ACCOUNT or bool(_ACCOUNT_NAME.search(name))
    return atom.kind in TARGETS and not (atom.kind is AtomKind.PHONE and _ACCOUNT_NAME.search(name))


def _plain(text: str) -> Atom:
    is_path = "/" in text and " " not in text
    return Atom(AtomKind.PATH if is_path else AtomKind.IDENTIFIER, folded(text), text)
