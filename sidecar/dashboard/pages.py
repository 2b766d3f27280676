"""Renders templates. All values are escaped; `visible` also makes invisible characters visible."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from sidecar.dashboard.forms import problems_of
from sidecar.dashboard.refresh import toggle_link

HERE = Path(__file__).parent
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Letters without a visible glyph, and the braille and hangul blanks.
_BLANK = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_MENU = [
    ("/", "Overview"),
    ("/trends", "Trends"),
    ("/decisions", "Decisions"),
    ("/keys", "Keys"),
    ("/playground", "Playground"),
    ("/policies", "Policies"),
    ("/exceptions", "Exceptions"),
    ("/shadow", "Shadow"),
    ("/mcp", "MCP"),
    ("/settings", "Settings"),
    ("/users", "Users"),
    ("/audit", "Audit"),
    ("/alerts", "Alerts"),
    ("/reference", "Reference"),
]


def is_hidden(char: str) -> bool:
    """Whether the character is invisible, or changes how others are displayed."""
    return unicodedata.category(char) in _HIDDEN or char in _BLANK or "\ufe00" <= char <= "\ufe0f"


def visible(text: object, *, lines: bool = False) -> Markup:
    """Escaped text in which every invisible or direction-changing character is shown as a box with its code point.

    `lines`: line breaks and tabs are kept.
    """
    text_value = str(text)
    if text_value.isprintable() and text_value.isascii():
        return escape(text_value)
    whitespace = frozenset("\n\t") if lines else frozenset()
    parts = []
    for hidden, chars in groupby(text_value, lambda char: char not in whitespace and is_hidden(char)):
        run = "".join(chars)
        parts.append(Markup("").join(map(_box, run)) if hidden else escape(run))
    return Markup('<bdi dir="auto">{}</bdi>').format(Markup("").join(parts))


def _box(char: str) -> Markup:
    name = unicodedata.name(char, "control character").lower()
    return Markup('<span class="hidden-char" title="{}">U+{:04X}</span>').format(name, ord(char))


def when(moment: datetime | None, *, short: bool = False) -> Markup:
    """A point in time in UTC, or a dash; `short`: the day, and the time as its title."""
    if moment is None:
        return Markup('<span class="none">–</span>')
    full = moment.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        moment.isoformat(), full, full[:10] if short else full
    )


def words(name: object) -> str:
    """`key_created` as readable text."""
    return str(name).replace("_", " ")


def duration(seconds: float) -> str:
    """A duration in the largest unit that fits."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def static_files() -> Mapping[str, bytes]:
    """The style sheet and the script, by name."""
    return {path.name: path.read_bytes() for path in sorted((HERE / "static").iterdir())}


def pages_of(can: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """The menu entries of those pages that the user can open."""
    return [page for page in _MENU if can("GET", page[0])]


class Pages:
    """The compiled templates."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"visible": visible, "when": when, "words": words, "duration": duration}
        content = b"".join(static_files().values())
        assets = hashlib.sha256(content).hexdigest()[:12]
        self._environment.globals |= {"assets": assets, "pages_of": pages_of, "problems_of": problems_of}
        self._environment.globals |= {"toggle_link": toggle_link}

    def draw(self, template: str, values: Mapping[str, Any]) -> str:
        """The page as HTML."""
        return self._environment.get_template(template).render(values)
