"""Twin of attachments/reader.py: PDFs become segments, and what is not read remains unscannable."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pdf_files import bomb, encrypted, pdf, picture, text_page

from sidecar.attachments.reader import MAX_FILES, NO_ATTACHMENTS, AttachmentReader
from sidecar.config import Pdf
from sidecar.extraction.extraction import Extraction, Unscannable
from sidecar.observability.metrics import PDFS
from sidecar.types import Segment, Source

PLAIN = pdf(text_page("Please send the report"))
SCAN = pdf(text_page("Page one") + b" q 9 0 0 9 0 0 cm /I1 Do Q", more=picture())


def reader(**settings: Any) -> AttachmentReader:
    """With a deadline that a busy machine keeps."""
    return AttachmentReader(Pdf(**{"deadline": "60s"} | settings))


def request(*files: bytes) -> Extraction:
    """A request with these files."""
    return Extraction(unscannable=tuple(Unscannable("media", f"file.{n}", data=data) for n, data in enumerate(files)))


def outcome(name: str) -> float:
    """How many files had this outcome so far."""
    return PDFS.labels(name)._value.get()


async def test_a_pdf_becomes_an_untrusted_segment() -> None:
    """At its path, and it is no longer unscannable; what else there is remains."""
    picture_part = Unscannable("media", "image")
    before = outcome("read")
    said = Segment("Hello", path="prompt")
    extraction = Extraction((said,), unscannable=(picture_part, *request(PLAIN).unscannable))
    result = await reader().read(extraction)
    assert result.segments == (said, Segment("Please send the report", Source.UNTRUSTED, "file.0"))
    assert result.unscannable == (picture_part,)
    assert outcome("read") == before + 1


async def test_what_is_read_in_part_is_scanned_and_named() -> None:
    """The text is a segment, and the file remains unscannable, without its bytes."""
    before = outcome("partial")
    result = await reader().read(request(SCAN))
    assert [segment.text for segment in result.segments] == ["Page one"]
    assert result.unscannable == (Unscannable("media", "file.0"),)
    assert outcome("partial") == before + 1


@pytest.mark.parametrize("data", [encrypted("Hello", "secret"), b"%PDF-1.4 1 0 obj", bomb(1_000_000_000)])
async def test_what_cannot_be_read_is_named(data: bytes) -> None:
    """Encrypted, damaged, or larger than the memory: no error, no segment."""
    before = outcome("failed")
    result = await reader().read(request(data))
    assert (result.segments, result.unscannable) == ((), (Unscannable("media", "file.0"),))
    assert outcome("failed") == before + 1


async def test_a_file_beyond_the_deadline_is_named() -> None:
    """However far the process has come."""
    before = outcome("timeout")
    result = await reader(deadline="100ms").read(request(pdf(*[text_page("Hello " * 1000)] * 400)))
    assert (result.segments, result.unscannable) == ((), (Unscannable("media", "file.0"),))
    assert outcome("timeout") == before + 1


async def test_files_beyond_the_queue_are_named() -> None:
    """One is read, one waits, and the third is not read."""
    before = outcome("overload")
    result = await reader(processes=1, queue=1).read(request(PLAIN, PLAIN, PLAIN))
    assert len(result.segments) == 2
    assert [part.path for part in result.unscannable] == ["file.2"]
    assert outcome("overload") == before + 1


async def test_a_client_with_many_files_leaves_room_for_another() -> None:
    """The other client's file takes the place of one that waits."""
    shared = reader(processes=1, queue=2)
    many = asyncio.ensure_future(shared.read(request(*[PLAIN] * 3), "many"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    one = await shared.read(request(PLAIN), "one")
    assert (len(one.segments), len((await many).segments)) == (1, 2)


async def test_a_request_has_a_bound_of_files() -> None:
    """Further ones are named, not read."""
    result = await reader(queue=100).read(request(*[PLAIN] * (MAX_FILES + 2)))
    assert len(result.segments) == MAX_FILES
    assert [part.path for part in result.unscannable] == [f"file.{MAX_FILES}", f"file.{MAX_FILES + 1}"]


@pytest.mark.parametrize("off", [NO_ATTACHMENTS, reader(enabled=False)])
async def test_nothing_is_read_where_it_is_off(off: AttachmentReader) -> None:
    """The file is unscannable, and its bytes are not kept."""
    assert await off.read(request(PLAIN)) == Extraction(unscannable=(Unscannable("media", "file.0"),))
