"""Turns PDFs of a request into segments, if the extra `[pdf]` is installed (`inline.pdf`).

What cannot be read, or not all of it, remains unscannable (`failure.input.media`): encrypted and damaged files, those
beyond a limit, pages that are pictures. Nothing that a file does is an error of the request.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from importlib.util import find_spec

from sidecar.attachments import processes
from sidecar.config import Pdf
from sidecar.extraction.extraction import Extraction, Unscannable
from sidecar.observability.metrics import PDFS
from sidecar.types import Segment, Source
from sidecar.util import json, logs
from sidecar.util.bulkhead import Bulkhead, BulkheadFull

MAX_FILES = 16
"""Files of one request that are read; further ones remain unscannable."""
MAX_BYTES_PER_CHARACTER = 6
"""In the output: a control character is escaped."""
_log = logs.get("attachments")


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, and whether it is all of it."""

    text: str = ""
    whole: bool = False


UNREAD = FileText()


class AttachmentReader:
    """Reads files under given settings, at most `processes` at once."""

    def __init__(self, settings: Pdf) -> None:
        self._settings = settings
        self._is_on = settings.enabled and find_spec("pypdfium2") is not None
        self._slots = Bulkhead(settings.processes, settings.queue)

    async def read(self, extraction: Extraction, client: str = "") -> Extraction:
        """With the texts of its PDFs, and without the PDFs themselves; what was read whole is no longer unscannable.

        All files together take at most `deadline` seconds, waiting included; clients take turns.
        """
        parts = [part for part in extraction.unscannable if part.data]
        if not parts:
            return extraction
        deadline = asyncio.get_running_loop().time() + self._settings.deadline
        files = parts[:MAX_FILES] if self._is_on else []
        texts = await asyncio.gather(*(self._read_file(part, client, deadline) for part in files))
        by_id = {id(part): text for part, text in zip(files, texts, strict=True)}
        remaining = [part for part in extraction.unscannable if not by_id.get(id(part), UNREAD).whole]
        segments = (
            Segment(text.text, Source.UNTRUSTED, part.path)
            for part, text in zip(files, texts, strict=True)
            if text.text
        )
        return replace(
            extraction,
            segments=(*extraction.segments, *segments),
            unscannable=tuple(replace(part, data=b"") if part.data else part for part in remaining),
        )

    async def _read_file(self, part: Unscannable, client: str, deadline: float) -> FileText:
        try:
            async with asyncio.timeout_at(deadline), self._slots.slot(client):
                text = await self._run(part.data)
            outcome = "failed" if text is UNREAD else "read" if text.whole else "partial"
        except TimeoutError:
            text, outcome = UNREAD, "timeout"
        except BulkheadFull:
            text, outcome = UNREAD, "overload"
        except OSError as error:  # no process, no memory
            _log.warning("pdf_process_failed", error=str(error))
            text, outcome = UNREAD, "failed"
        PDFS.labels(outcome).inc()
        return text

    async def _run(self, data: bytes) -> FileText:
        terms = self._settings
        arguments = (terms.memory, math.ceil(terms.deadline), terms.pages, terms.characters)
        max_output = MAX_BYTES_PER_CHARACTER * terms.characters + 100
        output = await processes.run(processes.PDF, arguments, data, max_output=max_output)
        return UNREAD if output is None else await asyncio.to_thread(_parse, output)


def _parse(output: bytes) -> FileText:
    """The result of the process, which a hostile file may have taken over."""
    try:
        value = json.loads(output)
        return FileText(str(value["text"]), value["whole"] is True)
    except (ValueError, LookupError, TypeError):
        return UNREAD


NO_ATTACHMENTS = AttachmentReader(Pdf(enabled=False))
"""Reads nothing: all files remain unscannable."""
