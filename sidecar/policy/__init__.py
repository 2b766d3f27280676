"""Policies: rules as operators write them, and what settings change of them."""

from __future__ import annotations

from sidecar.policy.rules import (
    KINDS,
    MAX_COMPILED,
    SHIPPED,
    Policy,
    Rule,
    compiled,
    load,
    program_size,
    re2_options,
    shipped_folder,
)

__all__ = [
    "KINDS",
    "MAX_COMPILED",
    "SHIPPED",
    "Policy",
    "Rule",
    "compiled",
    "load",
    "program_size",
    "re2_options",
    "shipped_folder",
]
