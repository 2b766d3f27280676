"""The record of every decision: a log line, metrics and a row of the scan log."""

from __future__ import annotations

from sidecar.journal.writer import Journal

__all__ = ["Journal"]
