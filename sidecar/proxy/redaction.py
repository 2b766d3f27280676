"""`pii: redact`: replaces personal data and secrets with placeholders before a request is scanned and forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError
from sidecar.extraction.dialect_fields import SHARED, DialectFields
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.strings import Slot, slots
from sidecar.response_scan.placeholders import Placeholders, spans
from sidecar.scan.known_values import KnownValues
from sidecar.types import Finding, ScanRequest, Segment

NOTHING_KNOWN = KnownValues()
MAX_CHARS = 1 << 20
"""Code points of one body in which personal data is replaced."""
MAX_PASSES = 16
"""Scans per body: a rule reports a limited number of matches at once, and stops early in long texts."""


class Redactor:
    """Replaces the findings of `pii_rules`."""

    def __init__(self, pii_rules: RulesLayer, passes: int = MAX_PASSES) -> None:
        self._pii_rules = pii_rules
        self._passes = passes

    async def redact(
        self, document: JsonValue, known: KnownValues = NOTHING_KNOWN, fields: DialectFields = SHARED
    ) -> Placeholders:
        """Replace personal data in `document` in place; returns the placeholders, none if nothing was found.

        `known`: values that stay, those of the application's own texts.
        Raises `BodyError` (oversize, 413) if the text is too long, or if there are still findings after all passes.
        Invariant: after each pass only strings that it changed can hold further findings.
        """
        pending = await asyncio.to_thread(slots, document, fields)
        if sum(len(slot.text) for slot in pending) > MAX_CHARS:
            raise BodyError("oversize", "The text is longer than personal data is looked for in.", status=413)
        placeholders = Placeholders("\n".join(slot.text for slot in pending if "<" in slot.text))
        for _ in range(self._passes):
            pending = await self._pass(pending, placeholders, known)
            if not pending:
                return placeholders
        raise BodyError("oversize", "The body holds more personal data than can be replaced.", status=413)

    async def _pass(self, pending: Sequence[Slot], placeholders: Placeholders, known: KnownValues) -> list[Slot]:
        """Replace the findings of one scan; returns the changed strings, which may hold more."""
        request = ScanRequest(tuple(Segment(slot.text, path=str(number)) for number, slot in enumerate(pending)))
        report = await self._pii_rules.scan(request, ())
        by_slot: dict[int, list[Finding]] = {}
        for finding in report.findings:
            if finding.decides:
                by_slot.setdefault(int(finding.path), []).append(finding)
        changed = []
        for number, findings in sorted(by_slot.items()):
            slot = pending[number]
            if places := [span for span in spans(slot.text, findings) if slot.text[span.start : span.end] not in known]:
                slot.put(placeholders.redact(slot.text, places))
                changed.append(slot)
        return changed
