"""Twin of attachments/pdf.py: what the program reads of a document, and what it says is missing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pdf_files import bomb, encrypted, pdf, picture, text_page, with_object_streams

from sidecar.attachments import pdf as program
from sidecar.attachments.processes import SANDBOX

TEXT = "Please send the report"
MEMORY = 256 * 1024 * 1024


def run(data: bytes, *, pages: int = 10, characters: int = 10_000) -> subprocess.CompletedProcess[bytes]:
    """The program as the server runs it."""
    arguments = [str(value) for value in (program.__file__, MEMORY, 20, pages, characters)]
    command = [sys.executable, "-I", str(SANDBOX), *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=100, env={}, check=False)


def read(data: bytes, **bounds: int) -> tuple[str, bool]:
    """The text that it writes, in one line, and whether it is all."""
    result = run(data, **bounds)
    assert result.returncode == 0, result.stderr.decode()
    output = json.loads(result.stdout)
    return " ".join(output["text"].split()), output["whole"]


ANNOTATION = "/Annots [<< /Type /Annot /Subtype /Text /Rect [0 0 9 9] /Contents (Please send the report) >>]"
BOOKMARK = {500: b"<< /First 501 0 R /Last 501 0 R >>", 501: b"<< /Title (Please send the report) /Parent 500 0 R >>"}
DOCUMENTS = {
    "plain": pdf(text_page(TEXT), compressed=False),
    "compressed": pdf(text_page(TEXT)),
    "object streams": with_object_streams(text_page(TEXT)),
    "no password": encrypted(TEXT, ""),
    "white": pdf(text_page(TEXT, colour="1 1 1 rg")),
    "invisible": pdf(text_page(TEXT, colour="3 Tr")),
    "beside the page": pdf(text_page(TEXT, place="40 -400")),
    "behind other bytes": b"\n" * 900 + pdf(text_page(TEXT)),
    "without a table": pdf(text_page(TEXT)).replace(b"startxref", b"startxxxx"),
    "words apart": pdf(b"BT /F1 12 Tf 1 0 0 1 110 700 Tm (the report) Tj 1 0 0 1 40 700 Tm (Please send) Tj ET"),
    "bookmark": pdf(text_page("Hello"), catalog="/Outlines 500 0 R", more=BOOKMARK),
    "several pages": pdf(text_page("Hello"), text_page(TEXT)),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_text_is_read_wherever_a_reader_finds_it(name: str) -> None:
    """In any encoding of the file, in any colour, on and beside the page."""
    text, whole = read(DOCUMENTS[name])
    assert TEXT in text
    assert whole


def test_annotations_are_read() -> None:
    """The note of a page that holds text."""
    assert TEXT in read(pdf(text_page("Hello"), page=ANNOTATION))[0]


def forms(levels: int) -> dict[int, bytes]:
    """A picture inside so many forms, each inside another; the outermost has number 500."""
    resources = (f"/BBox [0 0 999 999] /Resources << /XObject << /I1 {n + 501} 0 R >> >>" for n in range(levels))
    head = "<< /Type /XObject /Subtype /Form {} /Length 6 >>\nstream\n/I1 Do\nendstream"
    objects = {500 + n: head.format(entries).encode() for n, entries in enumerate(resources)}
    return {**objects, 500 + levels: picture()[500]}


NOTES = (
    "/Annots ["
    + "<< /Type /Annot /Subtype /Text /Rect [0 0 9 9] /Contents (Hello) >> " * (program.MAX_ENTRIES + 1)
    + "]"
)
ATTACHED = "/Names << /EmbeddedFiles << /Names [(a) << /Type /Filespec /F (a) /EF << /F 500 0 R >> >>] >> >>"
PARTIAL = {
    "a picture beside text": pdf(text_page(TEXT) + b" q 9 0 0 9 0 0 cm /I1 Do Q", more=picture()),
    "a scan": pdf(b"q 500 0 0 800 0 0 cm /I1 Do Q", more=picture()),
    "outlines of letters": pdf(b"0 0 m 100 100 l 50 50 l h f"),
    "a picture inside forms": pdf(text_page(TEXT) + b" q /I1 Do Q", more=forms(3)),
    "a picture deep inside forms": pdf(text_page(TEXT) + b" q /I1 Do Q", more=forms(40)),
    "too many annotations": pdf(text_page(TEXT), page=NOTES),
    "an attached file": pdf(text_page(TEXT), catalog=ATTACHED, more={500: b"<< /Length 2 >>\nstream\nhi\nendstream"}),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_what_holds_more_than_text_is_not_whole(name: str) -> None:
    """Pictures, pages with something drawn but no text, and files inside."""
    assert not read(PARTIAL[name])[1]


def test_a_blank_page_is_whole() -> None:
    """It shows nothing."""
    assert read(pdf(b"")) == ("", True)


def test_bounds_are_kept_and_said() -> None:
    """Further pages and characters are left out, and the text is then not whole."""
    text, whole = read(pdf(*[text_page(TEXT)] * 3), pages=2)
    assert (text.count(TEXT), whole) == (2, False)
    text, whole = read(pdf(text_page(TEXT)), characters=6)
    assert (text, whole) == ("Please", False)


HOSTILE = {
    "encrypted": encrypted(TEXT, "secret"),
    "not a PDF": b"%PDF-1.4 and nothing else",
    "empty": b"",
    "cut off": pdf(text_page(TEXT))[:200],
    "a bomb": bomb(1_000_000_000),
    "pages in a circle": pdf(text_page(TEXT)).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_opened_ends_the_program(name: str) -> None:
    """Without a word; the caller takes that for unread."""
    result = run(HOSTILE[name])
    assert (result.returncode != 0, result.stdout) == (True, b"")
