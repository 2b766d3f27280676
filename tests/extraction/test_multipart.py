"""Tests `sidecar.extraction.multipart`: forms of real clients are parsed, ambiguous ones refused."""

# ruff: noqa: E501, Q000 - tables of forms are read across, and quoted as they come

from __future__ import annotations

import asyncio

import aiohttp
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import BodyError
from sidecar.extraction.multipart import Part, is_form, parse_form

TYPE = "multipart/form-data; boundary=xyz"


def form(*parts: str, end: str = "--xyz--\r\n") -> bytes:
    """A form of raw parts."""
    return "".join(f"--xyz\r\n{part}\r\n" for part in parts).encode() + end.encode()


def field(name: str, value: str, parameters: str = "") -> str:
    """A plain field."""
    return f'Content-Disposition: form-data; name="{name}"{parameters}\r\n\r\n{value}'


def refused(raw: bytes, content_type: str | None = TYPE, coding: str | None = None) -> BodyError:
    """The error that a form is refused with."""
    with pytest.raises(BodyError) as caught:
        parse_form(raw, content_type=content_type, content_encoding=coding)
    return caught.value


def test_forms_of_httpx_are_read() -> None:
    """The form of the official Python client is parsed: fields, files, and names beyond ASCII."""
    request = httpx2.Request(
        "POST",
        "http://localhost/",
        data={"model": "whisper-1", "prompt": "Grüße: \r\n--xyz\r\n"},
        files={"file": ("stimme ü.wav", b"RIFF\r\n\x00\xff", "audio/wav"), "image[]": ("a.png", b"\x89PNG")},
    )
    parts = parse_form(request.read(), content_type=request.headers["Content-Type"])
    assert [(part.name, part.data) for part in parts] == [
        ("model", b"whisper-1"),
        ("prompt", "Grüße: \r\n--xyz\r\n".encode()),
        ("file", b"RIFF\r\n\x00\xff"),
        ("image[]", b"\x89PNG"),
    ]
    assert [part.is_text for part in parts] == [True, True, False, False]


async def test_forms_of_aiohttp_are_read() -> None:
    """The form of aiohttp is parsed, which declares a type for text fields."""
    data = aiohttp.FormData(quote_fields=False)
    data.add_field("prompt", "hello", content_type="text/plain; charset=utf-8")
    data.add_field("file", b"\x00\x01", filename="a.bin", content_type="application/octet-stream")
    writer = data()
    reader = _Collected()
    await writer.write(reader)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    parts = parse_form(bytes(reader.data), content_type=writer.headers["Content-Type"])
    assert [(part.name, part.data, part.is_text) for part in parts] == [
        ("prompt", b"hello", True),
        ("file", b"\x00\x01", False),
    ]


class _Collected:
    """A writer that collects the written bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def write(self, chunk: bytes) -> None:
        self.data += chunk


def test_a_form_of_curl_is_read() -> None:
    """A part with a filename, even an empty one, is a file and keeps its type."""
    raw = form(field("prompt", "hi"), field("file", "abc", '; filename=""\r\nContent-Type: text/plain'))
    assert parse_form(raw, content_type='multipart/form-data; boundary="xyz"') == (
        Part("prompt", b"hi"),
        Part("file", b"abc", "", "text/plain"),
    )


SPELLINGS = {
    "Spring": (
        'Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Length: 1',
        "multipart/form-data;charset=UTF-8;boundary=xyz",
    ),
    "OkHttp": ('Content-Disposition: form-data; name="a"\r\nContent-Length: 1', "multipart/form-data; boundary=xyz"),
    "Apache strict": (
        'Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: 8bit',
        "multipart/form-data; boundary=xyz",
    ),
    "Guzzle": ('Content-Length: 1\r\nContent-Disposition: form-data; name="a"', "multipart/form-data; boundary=xyz"),
    ".NET": (
        "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=a",
        'multipart/form-data; boundary="xyz"',
    ),
    "Dart": (
        'content-disposition: form-data; name="a"\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-transfer-encoding: binary',
        "multipart/form-data; boundary=xyz",
    ),
    "own fields": (
        'Content-Disposition: form-data;name="a"\r\nX-Trace: 7\r\nContent-ID: <a>',
        "multipart/form-data; boundary=xyz; charset=utf-8",
    ),
}


@pytest.mark.parametrize("client", SPELLINGS)
def test_every_legal_form_of_a_field_is_read(client: str) -> None:
    """Other header fields of a part are ignored (RFC 7578, 4.8), names need no quotes, order is free."""
    head, content_type = SPELLINGS[client]
    (part,) = parse_form(form(f"{head}\r\n\r\nb"), content_type=content_type)
    assert (part.name, part.data, part.is_text) == ("a", b"b", True)


@pytest.mark.parametrize(
    "head",
    ["form-data; filename=v.wav; name=file", "form-data; name=file; filename=\"v.wav\"; filename*=UTF-8''v%C3%A4.wav"],
)
def test_a_file_is_one_in_any_order_and_spelling(head: str) -> None:
    """A part with a filename in any spelling is a file, and both names are returned."""
    (part,) = parse_form(form(f"Content-Disposition: {head}\r\n\r\nb"), content_type=TYPE)
    assert (part.name, part.is_text, (part.filename or "").startswith("v.wav")) == ("file", False, True)


@pytest.mark.parametrize(
    "content_type",
    [
        None, "", "multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=xyz",
        "multipart/form-data; boundary=xyz; boundary=abc", "multipart/form-data; boundary=xyz; charset=utf-7", "multipart/form-data; boundary=xyz; charset=utf-8; charset=utf-8",
        "multipart/form-data; charset=utf-7; boundary=xyz", "multipart/form-data, multipart/form-data; boundary=xyz",
        'multipart/form-data; boundary="x y"', "multipart/form-data; boundary=xyz; start=x", "multipart/form-data; boundary=xyz,", "multipart/form-data; boundary=" + "x" * 71, "multipart/form-data; boundary*=xyz",
    ],
)  # fmt: skip
def test_a_type_without_one_plain_boundary_is_refused(content_type: str | None) -> None:
    """A missing, repeated or unusual boundary is refused with 415."""
    error = refused(form(field("a", "b")), content_type)
    assert (error.kind, error.status) == ("encoding", 415)


def test_a_coded_form_is_refused() -> None:
    """A form with Content-Encoding is refused with 415."""
    assert refused(form(field("a", "b")), coding="gzip").status == 415


DISPOSITION = 'Content-Disposition: form-data; name="a"'
DAMAGED = [
    b"", b"x", b"--xyz--\r\n", b"--xyz", b"--xyz\r\n", form(), b"preamble\r\n" + form(field("a", "b")),
    b"\r\n" + form(field("a", "b")), form(field("a", "b")) + b"epilogue", form(field("a", "b")) + b"\r\n",
    form(field("a", "b"), end="--xyz"), form(field("a", "b"), end=""), form(field("a", "b"), end="--xyz-- "),
    form(field("a", "b"), end="--xyz \r\n--xyz--\r\n"), form(field("a", "b")).replace(b"\r\n", b"\n"),
    form(field("a", "b\r\n--xyzx")), form(field("a", "b\r\n--xyz--"), field("c", "d")), form("\r\nbody"),
    form("name: x\r\n\r\nb"), form(f"{DISPOSITION}\r\nContent-Transfer-Encoding: base64\r\n\r\nYQ=="),
    form(f"{DISPOSITION}\r\n{DISPOSITION}\r\n\r\nb"), form(f"{DISPOSITION}\r\n folded\r\n\r\nb"), form(f" {DISPOSITION}\r\n\r\nb"),
    form(f'{DISPOSITION}; name="b"\r\n\r\nb'), form(f'{DISPOSITION}; filename="x"; filename="y"\r\n\r\nb'),
    form('Content-Disposition: form-data; name=a b\r\n\r\nb'), form('Content-Disposition: form-data\r\n\r\nb'),
    form(f"{DISPOSITION}\r\nContent-Length: 2\r\n\r\nb"), form(f"{DISPOSITION}\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nb"),
    form(f"{DISPOSITION}\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nb"), form(f"{DISPOSITION}; size=1\r\n\r\nb"),
    form(f"{DISPOSITION}\r\n" + "".join(f"X-{n}: y\r\n" for n in range(20)) + "\r\nb"), form(field("_charset_", "utf-16"), field("a", "b")),
    form('Content-Disposition: attachment; name="a"\r\n\r\nb'), form('Content-Disposition: form-data; name="a\\"b"\r\n\r\nb'),
    form(f"{DISPOSITION}; filename*=utf-16''x\r\n\r\nb"), form(f"{DISPOSITION}\r\nContent-Type: multipart/mixed; boundary=\r\n\r\nb"),
    form(f"{DISPOSITION}\r\nContent-Type: some words here\r\n\r\nb"), form(f"{DISPOSITION}\r\nX-Note : hello\r\n\r\nb"),
    form(f"{DISPOSITION}{' ' * 3000}\r\n\r\nb"), form(f"{DISPOSITION}\r\nb"), form(*[field("a", "b")] * 300),
    form(field("ÿ", "b")).replace("ÿ".encode(), b"\xff"),
]  # fmt: skip


@pytest.mark.parametrize("raw", DAMAGED, ids=range(len(DAMAGED)))
def test_forms_with_two_readings_are_refused(raw: bytes) -> None:
    """Text around the parts, malformed headers, repeated parameters, bare line feeds: each is refused with 400."""
    error = refused(raw)
    assert (error.kind, error.status) == ("malformed", 400)


def test_forms_are_told_by_their_type() -> None:
    """A form is recognized by its media type, in any case and with any parameters."""
    assert is_form("Multipart/Form-Data; boundary=x")
    assert not is_form("application/json")
    assert not is_form(None)


@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda data: b"--xyz\r\n" + data + b"\r\n--xyz--\r\n"))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    """Whatever arrives is a form or a `BodyError`."""
    try:
        parts = parse_form(raw, content_type=TYPE)
    except BodyError:
        return
    assert parts


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("ISO-8859-1", b"whisper-1", True),
        ("windows-1252", b"whisper-1", True),
        ("ISO-8859-1", "Gr\u00fc\u00dfe".encode("latin-1"), False),
        ("ISO-8859-1", "Gr\u00fc\u00dfe".encode(), False),
        ("utf-16", b"whisper-1", False),
    ],
)
def test_a_field_in_a_western_charset_is_text_while_it_is_ascii(charset: str, data: bytes, text: bool) -> None:
    """Apache's HttpClient declares ISO-8859-1 for every field; beyond ASCII servers decode it differently."""
    head = f'Content-Disposition: form-data; name="model"\r\nContent-Type: text/plain; charset={charset}\r\n'
    raw = b"--xyz\r\n" + head.encode() + b"Content-Transfer-Encoding: 8bit\r\n\r\n" + data + b"\r\n--xyz--\r\n"
    (part,) = parse_form(raw, content_type=TYPE)
    assert part.is_text is text
