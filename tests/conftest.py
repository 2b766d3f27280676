"""Fixtures that more than one test module needs."""

from __future__ import annotations
