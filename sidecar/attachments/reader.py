"""Turns files of a request into segments: PDFs (`inline.pdf`) and pictures (`inline.pictures`).

What cannot be read, or not all of it, remains unscannable (`failure.input.media`): encrypted and damaged files, those
beyond a limit, pages that are pictures. Nothing that a file does is an error of the request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from prometheus_client import Counter

from sidecar.attachments import processes
from sidecar.config import FileTerms, Inline
from sidecar.errors import ConfigError, needs_extra
from sidecar.extraction import embedded
from sidecar.extraction.extraction import Extraction, Unscannable
from sidecar.observability.metrics import PDFS, PICTURES
from sidecar.types import Segment, Source
from sidecar.util import json, logs
from sidecar.util.bulkhead import Bulkhead, BulkheadFull

MAX_FILES = 16
"""Files of one kind of one request that are read; further ones remain unscannable."""
MAX_BYTES_PER_CHARACTER = 6
"""In the output: a control character is escaped."""
_log = logs.get("attachments")


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, and whether it is all of it."""

    text: str = ""
    whole: bool = False


UNREAD = FileText()


@dataclass(frozen=True, slots=True)
class FileKind:
    """How files of one kind are recognized, by which module beside this one they are read, and what counts them."""

    recognizes: Callable[[bytes], bool]
    module: str
    outcomes: Counter


PDF = FileKind(embedded.is_pdf, "pdf.py", PDFS)
PICTURE = FileKind(embedded.is_picture, "picture.py", PICTURES)


class FileReader:
    """Reads files of one kind under given settings, at most `processes` at once; none if it is not `on`.

    `size`: the bound of a file's size, in what its kind has (pages, pixels).
    """

    def __init__(self, kind: FileKind, terms: FileTerms, size: int, *, on: bool) -> None:
        self._kind, self._terms, self._size, self._is_on = kind, terms, size, on
        self._slots = Bulkhead(terms.processes, terms.queue)

    async def read(self, files: Sequence[bytes], client: str) -> list[FileText | None]:
        """The text of each file, None for those of another kind.

        All together take at most `deadline` seconds, waiting included; clients take turns.
        """
        deadline = asyncio.get_running_loop().time() + self._terms.deadline
        matching = [number for number, data in enumerate(files) if self._kind.recognizes(data)]
        texts: list[FileText | None] = [UNREAD if number in matching else None for number in range(len(files))]
        readable = matching[:MAX_FILES] if self._is_on else []
        results = await asyncio.gather(*(self._read_file(files[number], client, deadline) for number in readable))
        for number, text in zip(readable, results, strict=True):
            texts[number] = text
        return texts

    async def _read_file(self, data: bytes, client: str, deadline: float) -> FileText:
        try:
            async with asyncio.timeout_at(deadline), self._slots.slot(client):
                text = await self._run(data)
            outcome = "failed" if text is UNREAD else "read" if text.whole else "partial"
        except TimeoutError:
            text, outcome = UNREAD, "timeout"
        except BulkheadFull:
            text, outcome = UNREAD, "overload"
        except OSError as error:  # no process, no memory
            _log.warning("file_process_failed", module=self._kind.module, error=str(error))
            text, outcome = UNREAD, "failed"
        self._kind.outcomes.labels(outcome).inc()
        return text

    async def _run(self, data: bytes) -> FileText:
        terms, module = self._terms, Path(__file__).with_name(self._kind.module)
        arguments = (module, terms.memory, math.ceil(terms.deadline), self._size, terms.characters)
        max_output = MAX_BYTES_PER_CHARACTER * terms.characters + 100
        output = await processes.run(processes.SANDBOX, arguments, data, max_output=max_output)
        return UNREAD if output is None else await asyncio.to_thread(_parse, output)


class AttachmentReader:
    """Reads the files of requests. Raises `ConfigError` if pictures are to be read without the extra `[ocr]`."""

    def __init__(self, settings: Inline) -> None:
        pdf, pictures = settings.pdf, settings.pictures
        if pictures.enabled and find_spec("faster_paddle") is None:
            raise ConfigError("inline.pictures", [needs_extra("ocr")])
        is_pdf_on = pdf.enabled and find_spec("pypdfium2") is not None
        self._readers = (
            (FileReader(PDF, pdf, pdf.pages, on=is_pdf_on), (Source.UNTRUSTED,), None),
            (
                FileReader(PICTURE, pictures, pictures.pixels, on=pictures.enabled),
                (Source.UNTRUSTED, Source.USER),  # it may show the user's own words, and is judged as both
                pictures.threshold,
            ),
        )

    async def read(self, extraction: Extraction, client: str = "") -> Extraction:
        """With the texts of its files, and without the files; what was read whole is no longer unscannable.

        A file of two kinds is read as both.
        """
        parts = [part for part in extraction.unscannable if part.data]
        if not parts:
            return extraction
        files = [part.data for part in parts]
        by_kind = await asyncio.gather(*(reader.read(files, client) for reader, *_ in self._readers))
        whole = {id(part) for part, texts in zip(parts, zip(*by_kind, strict=True), strict=True) if _is_whole(texts)}
        segments = (
            Segment(text.text, source, part.path, threshold=threshold)
            for (_, sources, threshold), texts in zip(self._readers, by_kind, strict=True)
            for part, text in zip(parts, texts, strict=True)
            if text and text.text
            for source in sources
        )
        return replace(
            extraction,
            segments=(*extraction.segments, *segments),
            unscannable=tuple(_without_data(part) for part in extraction.unscannable if id(part) not in whole),
        )


def _is_whole(texts: Sequence[FileText | None]) -> bool:
    results = [text.whole for text in texts if text is not None]
    return bool(results) and all(results)


def _without_data(part: Unscannable) -> Unscannable:
    return replace(part, data=b"") if part.data else part


def _parse(output: bytes) -> FileText:
    """The result of the process, which a hostile file may have taken over."""
    try:
        value = json.loads(output)
        return FileText(str(value["text"]), value["whole"] is True)
    except (ValueError, LookupError, TypeError):
        return UNREAD


NO_ATTACHMENTS = AttachmentReader(Inline.model_validate({"pdf": {"enabled": False}}))
"""Reads nothing: all files remain unscannable."""
