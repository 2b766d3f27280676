"""The line of the chart's schema that is made from the settings: the names in `gateway.settings`, and their choices.

Helm refuses a misspelt name or choice then; without it the gateway's pod would be made, and would not start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from sidecar.config import Settings
from sidecar.util.validation import settings_of

_LINE = re.compile(r'^( +"settings": ).*?(,?)$', re.MULTILINE)


def written(text: str) -> str:
    """The schema with the line of `gateway.settings` anew."""
    return _LINE.sub(lambda match: match[1] + json.dumps(_settings()) + match[2], text)


def _settings() -> dict[str, Any]:
    """A list or a section is one line of YAML as text, as in a variable of the environment.

    Helm writes numbers from a million on with an exponent, so these are text, too.
    """
    value = {"type": ["string", "number", "boolean"], "exclusiveMaximum": 1_000_000}
    names: dict[str, Any] = dict.fromkeys(sorted(settings_of(Settings)), value)
    names |= {name: {"enum": choices} for name, choices in _choices(Settings)}
    of_files = {"^[a-z][a-z0-9_.]*_file$": {"type": "string"}}
    return {"type": "object", "additionalProperties": False, "patternProperties": of_files, "properties": names}


def _choices(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, list[Any]]]:
    """The settings that take a few words, with these words; `true` and `false` may be text, too."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _choices(kind, f"{prefix}{name}.")
        elif get_origin(kind) is Literal:
            yield prefix + name, list(get_args(kind))
        elif kind is bool:
            yield prefix + name, [True, False, "true", "false"]
