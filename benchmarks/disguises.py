"""The disguises of the evasion benchmark: those of the product that were written before the detection of any of them.

`load` also reads a file of the same form.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from sidecar.harden import disguises
from sidecar.harden.disguises import Disguise, of_module

__all__ = ["CLASSES", "Disguise", "load"]

CLASSES: Mapping[str, Mapping[str, Disguise]] = {
    name: disguises.CLASSES[name] for name in ("separators", "spellings", "encodings", "scripts", "markup")
}


def load(path: Path) -> dict[str, Disguise]:
    """The disguises of another file."""
    spec = importlib.util.spec_from_file_location("disguises_of_file", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return of_module(module)
