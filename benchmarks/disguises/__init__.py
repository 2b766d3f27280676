"""Disguises of a text that a language model can still read: plain functions, one description each.

Written before the detection of any of them was looked at. `load` also reads a file of the same form.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from benchmarks.disguises import encodings, markup, scripts, separators, spellings

Disguise = Callable[[str], str]


def _of(module: ModuleType) -> dict[str, Disguise]:
    functions = inspect.getmembers(module, inspect.isfunction)
    return {name: f for name, f in functions if f.__module__ == module.__name__ and not name.startswith("_")}


CLASSES: Mapping[str, Mapping[str, Disguise]] = {
    module.__name__.rpartition(".")[2]: _of(module) for module in (separators, spellings, encodings, scripts, markup)
}


def load(path: Path) -> dict[str, Disguise]:
    """The disguises of another file."""
    spec = importlib.util.spec_from_file_location("disguises_of_file", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return _of(module)
