"""The text of a PDF, read in a process of its own (`sandbox`): whatever a reader may show or use.

That is pages in all colours and places, annotations, values of form fields, titles of bookmarks, and properties of the
document.
"""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Iterator
from itertools import islice

import pypdfium2
from pypdfium2 import raw

codecs.lookup("utf-16-le")  # is loaded at its first use, which the confined process cannot do
MAX_OBJECTS, MAX_NESTING, MAX_ENTRIES = 20_000, 15, 1_000
"""Of one page: objects, their nesting, and annotations; bookmarks of the document."""
_FIELDS = (b"Contents", b"RC", b"V", b"T", b"TU")
_PROPERTIES = ("Title", "Author", "Subject", "Keywords", "Creator")
_HYPHENS = str.maketrans({"\x02": "-", "\ufffe": "-"})
"""What pdfium writes for a hyphen at the end of a line."""


def read(data: bytes, pages: int, characters: int) -> tuple[str, bool]:
    """The text of a document, and whether that is all of it.

    It is not if a page has a picture, or something drawn but no text; with attached files, an XFA form, or more pages,
    characters, bookmarks, annotations, objects or nesting than the bounds. Raises `PdfiumError` for a file that cannot
    be opened, such as an encrypted one.
    """
    document = pypdfium2.PdfDocument(data)
    document.init_forms()
    whole = (
        len(document) <= pages and not document.count_attachments() and document.get_formtype() < raw.FORMTYPE_XFA_FULL
    )
    bookmarks = [bookmark.get_title() for bookmark in islice(document.get_toc(), MAX_ENTRIES + 1)]
    texts, whole = [*_properties(document), *bookmarks], whole and len(bookmarks) <= MAX_ENTRIES
    for number in range(min(len(document), pages)):
        text, is_whole = _page(document, number)
        texts.append(text)
        whole = whole and is_whole
    text = "\n\n".join(text for text in texts if text.strip())
    return text[:characters], whole and len(text) <= characters


def _properties(document: pypdfium2.PdfDocument) -> Iterator[str]:
    values = document.get_metadata_dict()
    yield from (values.get(name, "") for name in _PROPERTIES)


def _page(document: pypdfium2.PdfDocument, number: int) -> tuple[str, bool]:
    """The text of a page with its annotations, as it is after these have been drawn onto it."""
    page = document[number]
    notes, count = list(_annotations(page)), raw.FPDFPage_GetAnnotCount(page)
    is_drawn = raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_FAIL
    page.close()
    page = document[number]
    text = page.get_textpage().get_text_range().translate(_HYPHENS)
    items = list(islice(page.get_objects(max_depth=MAX_NESTING), MAX_OBJECTS))
    kinds, is_deep = [item.type for item in items], any(item.level >= MAX_NESTING - 1 for item in items)
    is_scan = raw.FPDF_PAGEOBJ_IMAGE in kinds or (bool(kinds) and not text.strip())
    page.close()
    is_bounded = len(kinds) < MAX_OBJECTS and count <= MAX_ENTRIES and not is_deep
    return "\n".join([text, *notes]), is_drawn and not is_scan and is_bounded


def _annotations(page: pypdfium2.PdfPage) -> Iterator[str]:
    for number in range(min(raw.FPDFPage_GetAnnotCount(page), MAX_ENTRIES)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        yield from filter(None, (_value(annotation, name) for name in _FIELDS))
        raw.FPDFPage_CloseAnnot(annotation)


def _value(annotation: object, name: bytes) -> str:
    size = raw.FPDFAnnot_GetStringValue(annotation, name, None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAnnot_GetStringValue(annotation, name, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")
