"""Disguises of a text that a language model can still read: plain functions, one description each.

The modules `separators`, `spellings`, `encodings`, `scripts` and `markup` were written before the detection of any
disguise was looked at. The classes are in the order in which a second disguise may follow a first one: other words
first, then other letters, codes of the letters, and text around all of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType

from sidecar.harden.disguises import encodings, framings, markup, scripts, separators, spellings, wordings

Disguise = Callable[[str], str]


def of_module(module: ModuleType) -> dict[str, Disguise]:
    """The disguises of a module by name: its public functions."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return {name: f for name, f in functions if f.__module__ == module.__name__ and not name.startswith("_")}


CLASSES: Mapping[str, Mapping[str, Disguise]] = {
    module.__name__.rpartition(".")[2]: of_module(module)
    for module in (wordings, spellings, scripts, separators, encodings, markup, framings)
}
