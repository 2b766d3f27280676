"""`pii: redact`: personal data and secrets leave a request before it is scanned and goes up; names stand for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.strings import Slot, slots
from sidecar.response_scan.placeholders import Placeholders, spans
from sidecar.types import Finding, ScanRequest, Segment

LONGEST = 1 << 20
"""Code points of one body in which personal data is replaced."""
MOST_PASSES = 16
"""Looks at one body: a rule reports so many places at once, and stops reading a long text once it is certain."""


class Redactor:
    """Replaces what the rules of `personal` find."""

    def __init__(self, personal: RulesLayer, passes: int = MOST_PASSES) -> None:
        self._personal = personal
        self._passes = passes

    async def redact(self, document: JsonValue) -> Placeholders:
        """Change the strings of `document` in place; the names that were given, none if nothing was found.

        Raises `BodyError` (oversize, 413) for a text that is never scanned, and if there is no end to what is found.
        """
        left = await asyncio.to_thread(slots, document)
        if sum(len(slot.text) for slot in left) > LONGEST:
            raise BodyError("oversize", "The text is longer than personal data is looked for in.", status=413)
        names = Placeholders("\n".join(slot.text for slot in left if "<" in slot.text))
        for _ in range(self._passes):
            left = await self._pass(left, names)
            if not left:
                return names
        raise BodyError("oversize", "The body holds more personal data than can be replaced.", status=413)

    async def _pass(self, left: Sequence[Slot], names: Placeholders) -> list[Slot]:
        """Replace what one look finds; the strings that were changed, which hide the rest."""
        request = ScanRequest(tuple(Segment(slot.text, path=str(number)) for number, slot in enumerate(left)))
        report = await self._personal.scan(request, ())
        found: dict[int, list[Finding]] = {}
        for finding in report.findings:
            if finding.decides:
                found.setdefault(int(finding.path), []).append(finding)
        changed = []
        for number, findings in sorted(found.items()):
            slot = left[number]
            if places := spans(slot.text, findings):
                slot.put(names.redact(slot.text, places))
                changed.append(slot)
        return changed
