"""Policies: rules as operators write them, and what settings change of them."""

from __future__ import annotations

from sidecar.policy.rules import KEPT, KINDS, SHIPPED, Policy, Rule, compiled, load, options, program_size, shipped

__all__ = ["KEPT", "KINDS", "SHIPPED", "Policy", "Rule", "compiled", "load", "options", "program_size", "shipped"]
