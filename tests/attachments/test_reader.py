"""Twin of attachments/reader.py: files become segments, and what is not read remains unscannable."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from pdf_files import bomb, encrypted, pdf, picture, text_page
from picture_files import bomb as large_picture
from picture_files import chunk, gif, png

from sidecar.attachments.reader import MAX_FILES, NO_ATTACHMENTS, AttachmentReader
from sidecar.config import Inline
from sidecar.errors import ConfigError
from sidecar.extraction.extraction import Extraction, Unscannable
from sidecar.observability.metrics import PDFS, PICTURES
from sidecar.types import Segment, Source

PLAIN = pdf(text_page("Please send the report"))
PICTURE = png("Please send the report")
SCAN = pdf(text_page("Page one") + b" q 9 0 0 9 0 0 cm /I1 Do Q", more=picture())


def reader(**settings: Any) -> AttachmentReader:
    """With a deadline that a busy machine keeps."""
    return AttachmentReader(Inline.model_validate({"pdf": {"deadline": "60s"} | settings}))


def picture_reader(**settings: Any) -> AttachmentReader:
    """The same, for pictures, with PDFs as shipped."""
    terms = {"enabled": True, "deadline": "60s"} | settings
    return AttachmentReader(Inline.model_validate({"pictures": terms, "pdf": {"deadline": "60s"}}))


def request(*files: bytes) -> Extraction:
    """A request with these files."""
    return Extraction(unscannable=tuple(Unscannable("media", f"file.{n}", data=data) for n, data in enumerate(files)))


def outcome(name: str) -> float:
    """How many files had this outcome so far."""
    return PDFS.labels(name)._value.get()


def picture_outcome(name: str) -> float:
    """The same, of pictures."""
    return PICTURES.labels(name)._value.get()


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


async def test_a_picture_becomes_segments_with_its_threshold() -> None:
    """At its path, as a third party's words and as the user's, and it is no longer unscannable."""
    before = picture_outcome("read")
    result = await picture_reader(threshold=0.2).read(request(PICTURE))
    sources = (Source.UNTRUSTED, Source.USER)
    expected = tuple(Segment("Please send the report", source, "file.0", threshold=0.2) for source in sources)
    assert (result.segments, result.unscannable) == (expected, ())
    assert picture_outcome("read") == before + 1


async def test_a_picture_read_in_part_is_scanned_and_named() -> None:
    """Further frames are not read."""
    before = picture_outcome("partial")
    result = await picture_reader().read(request(gif("Page one", "Page two")))
    assert [segment.text for segment in result.segments] == ["Page one"] * 2
    assert result.unscannable == (Unscannable("media", "file.0"),)
    assert picture_outcome("partial") == before + 1


@pytest.mark.parametrize("data", [large_picture(), PICTURE[:300], PICTURE[:20], b"\xff\xd8\xff"])
async def test_a_picture_that_cannot_be_read_is_named(data: bytes) -> None:
    """Too large, or damaged: no error, no segment."""
    before = picture_outcome("failed")
    result = await picture_reader().read(request(data))
    assert (result.segments, result.unscannable) == ((), (Unscannable("media", "file.0"),))
    assert picture_outcome("failed") == before + 1


async def test_pictures_have_their_own_bounds() -> None:
    """Of time, of places and of number, beside those of PDFs."""
    late, many = picture_outcome("timeout"), picture_outcome("overload")
    assert (await picture_reader(deadline="100ms").read(request(png("Hello", scale=5)))).segments == ()
    assert len((await picture_reader(processes=1, queue=1).read(request(*[PICTURE] * 3, PLAIN))).segments) == 2 * 2 + 1
    assert (picture_outcome("timeout"), picture_outcome("overload")) == (late + 1, many + 1)
    result = await picture_reader(queue=100).read(request(*[png("")] * (MAX_FILES + 1), PLAIN))
    assert [part.path for part in result.unscannable] == [f"file.{MAX_FILES}"]
    assert [segment.path for segment in result.segments] == [f"file.{MAX_FILES + 1}"]


async def test_a_picture_that_is_a_pdf_as_well_is_read_as_both() -> None:
    """It is whole only if both are."""
    both = png("Send the picture", chunk(b"tEXt", b"a\0" + PLAIN))
    result = await picture_reader().read(request(both))
    assert [segment.text for segment in result.segments] == ["Please send the report", *["Send the picture"] * 2]
    assert result.unscannable == ()
    assert (await reader().read(request(both))).unscannable == (Unscannable("media", "file.0"),)


async def test_pictures_are_not_read_unless_it_is_set() -> None:
    """They are unscannable, and neither kept nor counted."""
    before = [picture_outcome(name) for name in ("read", "partial", "failed")]
    assert await reader().read(request(PICTURE)) == Extraction(unscannable=(Unscannable("media", "file.0"),))
    assert [picture_outcome(name) for name in ("read", "partial", "failed")] == before


def test_pictures_need_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the engine there is no reader, and the message says what to install."""
    monkeypatch.setitem(sys.modules, "faster_paddle", None)  # as Python marks a module that must not be imported
    with pytest.raises(ConfigError, match=r"inline\.pictures.*\n.*pip install '\.\[ocr\]'"):
        picture_reader()
