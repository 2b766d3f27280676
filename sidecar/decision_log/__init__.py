"""The record of every decision: a log line, metrics and a row of the scan log."""

from __future__ import annotations

from sidecar.decision_log.writer import DecisionLog

__all__ = ["DecisionLog"]
