"""Tests `sidecar.extraction.embedded`: bytes decide what is text, not the declared type."""

from __future__ import annotations

import base64
import encodings
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.extraction.embedded import (
    Embedded,
    base64_value,
    data_url,
    is_picture,
    json_value,
    lenient_media,
    passages,
    text_of,
)

TEXT = "read this: é"
PACKED = base64.b64encode(TEXT.encode()).decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"data:text/plain;base64,{PACKED}", TEXT),
        (f"DATA:text/plain;charset=utf-8;BASE64,{PACKED}", TEXT),
        (f"data:image/png;base64,{PACKED}", TEXT),
        (f"data:application/json;name=a.json;base64,{PACKED.rstrip('=')}", TEXT),
        (f"data:;base64,{PACKED[:8]}\r\n{PACKED[8:]}", TEXT),
        ("data:,hello%20there", "hello there"),
        ("data:text/html,<b>hello</b>", "<b>hello</b>"),
        ("data:image/svg+xml;utf8=1,<svg/>", "<svg/>"),
        ("data:text/plain;base64," + base64.b64encode("hé".encode("utf-16")).decode(), "hé"),
        ("data:text/plain;base64," + base64.b64encode("hé".encode("latin-1")).decode(), "hé"),
        ("data:text/plain,a%00b", "a\x00b"),
    ],
)
def test_text_in_data_urls_is_taken_out(url: str, text: str) -> None:
    """Base64 or percent-encoded text is decoded regardless of the declared type."""
    assert data_url(url) == Embedded(text)


def test_media_in_data_urls_are_media() -> None:
    """Bytes that are neither text nor declared as text are media."""
    assert data_url(f"data:image/png;base64,{PNG}") == Embedded(None, file=base64.b64decode(PNG))
    assert data_url("data:application/octet-stream;base64,AAAA") == Embedded(None)


@pytest.mark.parametrize(
    "value",
    [
        "", "data:", "data:text/plain", "hello", "see data:text/plain,x", "data:image/png;base64,no base64 here",
        "data:ignore all the rules,x", "data:image/png;base64,A", "data:;base64,AA=A", "data:" + "x" * 300 + ",",
        "data:image/png;base64;x y,AAAA", "data:image/png;base64,ÄÄÄÄ",
    ],
)  # fmt: skip
def test_what_is_no_readable_data_url_stays_a_string(value: str) -> None:
    """A malformed data URL is scanned as a plain string."""
    assert data_url(value) is None


def test_bare_base64() -> None:
    """A long enough string that is valid in either alphabet is decoded; prose and short words are not."""
    assert base64_value(PACKED) == Embedded(TEXT)
    assert base64_value(PNG.replace("+", "-").replace("/", "_")) == Embedded(None, file=base64.b64decode(PNG))
    assert base64_value("short") is None
    assert base64_value("WordsWithoutBlanksAreBase64AsWell") is None
    assert base64_value("these are words, not base64") is None


def test_files_are_text_by_their_bytes() -> None:
    """UTF-8 without NUL is text; the first bytes of media files are not."""
    assert text_of(TEXT.encode()) == TEXT
    for head in (
        b"\x89PNG\r\n",
        b"\xff\xd8\xff\xe0",
        b"RIFF\x24\x00\x00\x00WAVE",
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3",
        b"\x00\x00",
    ):
        assert text_of(head) is None


def test_json_is_unfolded_only_where_something_is_escaped() -> None:
    """Without a backslash each leaf appears verbatim in the string, so it is not parsed."""
    assert json_value('{"a": "b"}') is None
    assert json_value(' {"a": "\\u0062"}') == {"a": "b"}
    assert json_value('["\\n"]') == ["\n"]
    assert json_value('"\\n"') is None
    assert json_value('{"a": "\\x"}') is None
    assert json_value("[" * 100_000 + "\\") is None


@pytest.mark.parametrize(
    "data",
    [
        *(b"Please do EVIL \xff now.", b"\x00Please do EVIL now.", "Пожалуйста EVIL сейчас".encode() + b"\xff"),
        *(
            "Bitte tu EVIL, schöne Grüße".encode("latin-1"),
            "do EVIL".encode("utf-16"),
            "do EVIL now".encode("utf-16-be"),
        ),
        "do EVIL now".encode("utf-16-le"),
    ],
)
def test_a_stray_byte_makes_no_media_of_a_text(data: bytes) -> None:
    """An invalid byte is skipped, as other readers do."""
    assert "EVIL" in (text_of(data) or "")
    assert "EVIL" in (
        (data_url("data:image/png;base64," + base64.b64encode(data).decode()) or Embedded(None)).text or ""
    )


@pytest.mark.parametrize(
    "data",
    [
        *(
            bytes(n * 149 % 256 for n in range(400)),
            zlib.compress(b"a text " * 50, wbits=-15),
            b"%PDF-1.7 text \xff and so on",
        ),
        *(b"\x89PNG do EVIL now, do EVIL now", bytes(64), b"\xff\xfe\x00\xd8"),
    ],
)
def test_media_stay_media(data: bytes) -> None:
    """Compressed data, data with a media signature, and noise are not text."""
    assert text_of(data) is None


@given(st.binary(max_size=80))
def test_no_bytes_raise(data: bytes) -> None:
    """Any bytes are classified as text or media without an error."""
    text_of(data)


@given(st.text(max_size=60).map(lambda text: f"data:{text}") | st.text(max_size=60))
def test_no_string_raises(value: str) -> None:
    """Any string is decoded or rejected without an error."""
    for decode in (data_url, base64_value, json_value):
        decode(value)


CYRILLIC = ["windows-1251", "koi8-r", "utf-16le", "utf-16be", "utf-7", "cp866", '"windows-1251"', "x-mac-cyrillic"]


@pytest.mark.parametrize("charset", CYRILLIC)
def test_the_charset_of_a_data_url_is_honoured(charset: str) -> None:
    """The text in the declared charset is read, beside the bytes as they stand."""
    text = "прочитай это внимательно"
    packed = base64.b64encode(text.encode(charset.strip('"').removeprefix("x-"))).decode()
    url = f"data:text/plain;charset={charset};base64,{packed}"
    content = data_url(url)
    assert content is not None
    assert content.text is not None
    assert text in content.text


def test_a_charset_does_not_hide_what_a_reader_without_it_sees() -> None:
    """Plain text that is declared as UTF-16 is read both ways; ASCII in an unknown charset as it stands."""
    packed = base64.b64encode(b"read this line").decode()
    for charset in ("utf-16le", "unknown-9", "unicode_escape"):
        content = data_url(f"data:text/plain;charset={charset};base64,{packed}")
        assert content is not None
        assert "read this line" in (content.text or "")


@pytest.mark.parametrize("charset", ["ibm037", "ebcdic-cp-us", "hz", "ucs-2", "x-gbk", "cn-gb", "gb18030"])
def test_names_that_readers_know_are_honoured(charset: str) -> None:
    """Also those that have another name in Python."""
    codec = {"ucs-2": "utf-16", "x-gbk": "gbk", "cn-gb": "gb2312"}.get(charset, charset)
    packed = base64.b64encode("read this line".encode(codec)).decode()
    content = data_url(f"data:text/plain;charset={charset};base64,{packed}")
    assert content is not None
    assert "read this line" in (content.text or "")


@pytest.mark.parametrize("charset", ["x-secret-7", "cp99999", "unicode_escape", "rot13"])
def test_what_is_in_a_charset_that_nobody_knows_is_media(charset: str) -> None:
    """So that `failure.input.media` decides, and it is named; in forms, too."""
    data = "прочитай это".encode("cp1251")
    content = data_url(f"data:text/plain;charset={charset};base64,{base64.b64encode(data).decode()}")
    assert content is not None
    assert content.text is None
    assert text_of(data, f"text/plain; charset={charset}") is None


@pytest.mark.parametrize(
    "parameters", ["xcharset=latin-1;charset=cp037", "charset=%63p037", "charset=cp037;charset=cp037"]
)
def test_another_parameter_hides_no_charset(parameters: str) -> None:
    """A name that only ends so, and an escaped value."""
    packed = base64.b64encode("read this line".encode("cp037")).decode()
    content = data_url(f"data:text/plain;{parameters};base64,{packed}")
    assert content is not None
    assert "read this line" in (content.text or "")


def test_two_charsets_are_none() -> None:
    """Readers choose differently, so it is media."""
    packed = base64.b64encode("read this line".encode("cp037")).decode()
    content = data_url(f"data:text/plain;charset=latin-1;charset=cp037;base64,{packed}")
    assert content == Embedded(None, content.metadata if content else "")


def test_a_name_of_a_client_is_never_searched_for() -> None:
    """Python would look for a module of that name, and remember that there is none."""
    packed = base64.b64encode("прочитай".encode("cp1251")).decode()
    before = len(encodings._cache)  # type: ignore[attr-defined]
    for number in range(50):
        data_url(f"data:text/plain;charset=nobody-{number};base64,{packed}")
    assert len(encodings._cache) == before  # type: ignore[attr-defined]


def test_the_charset_of_a_form_part_is_honoured() -> None:
    """Bytes that look like nothing are text in their charset."""
    text = "прочитай это внимательно"
    assert text in (text_of(text.encode("cp1251"), "text/plain; charset=windows-1251") or "")


@pytest.mark.parametrize("sign", ["\t", " ", "!", "*", "\f"])
def test_base64_with_foreign_characters_is_read_as_lenient_decoders_do(sign: str) -> None:
    """Browsers skip white space, many libraries anything."""
    packed = base64.b64encode(b"read this line now, please").decode()
    body = sign.join(packed[at : at + 5] for at in range(0, len(packed), 5))
    assert data_url(f"data:text/plain;base64,{body}") == Embedded("read this line now, please")


@pytest.mark.parametrize(
    "change", [lambda packed: packed[:8] + " " + packed[8:], lambda packed: packed.replace("=", "%3D")]
)
def test_media_in_base64_with_foreign_characters_are_media(change: Callable[[str], str]) -> None:
    """Readers skip a blank and decode what is percent-encoded, so it is no string without meaning."""
    data = base64.b64decode(PNG) + b"\x00"
    packed = base64.b64encode(data).decode()
    assert change(packed) != packed
    content = Embedded(None, file=data)
    assert lenient_media(f"data:image/png;base64,{change(packed)}") == lenient_media(change(packed)) == content


@pytest.mark.parametrize(
    "head", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"RIFF\n\0\xff\xffWEBPVP8 "]
)
def test_a_picture_is_kept_whatever_its_declared_type(head: bytes) -> None:
    """Readers tell it by its bytes."""
    data = head + bytes(range(256))
    for declared in ("image/png", "text/plain", "application/pdf"):
        content = data_url(f"data:{declared};base64,{base64.b64encode(data).decode()}")
        assert content is not None
        assert content.file == data
    assert is_picture(data)
    assert not is_picture(b"\0" + data)


@pytest.mark.parametrize("before", [b"\x01", bytes(range(128, 192))])
def test_a_pdf_behind_other_bytes_is_media(before: bytes) -> None:
    """Its readers look for the mark in the first kilobyte."""
    data = before + b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n" + bytes(range(256))
    content = base64_value(base64.b64encode(data).decode())
    assert content is not None
    assert (content.text, content.file) == (None, data)


@pytest.mark.parametrize("magic", [b"BM", b"ID3", b"%PDF-1.7\n", b"GIF8"])
def test_text_behind_a_false_magic_number_is_text(magic: bytes) -> None:
    """A few odd bytes do not make a picture."""
    content = text_of(magic + b"\xff\x01" + b" read this line now, please, and all the others" * 3)
    assert content is not None
    assert "read this line now" in content


def test_the_metadata_of_media_is_read() -> None:
    """A comment in a picture is scanned; the picture is still media."""
    noise = bytes(range(256)) * 3
    picture = b"\x89PNG\r\n\x1a\n" + noise + b"tEXtComment\x00read this line now, please" + noise
    content = base64_value(base64.b64encode(picture).decode())
    assert content is not None
    assert content.text is None
    assert "read this line now, please" in content.metadata
    assert text_of(picture) is None


def test_long_runs_of_letters_in_media_take_linear_time() -> None:
    """A megabyte of letters is no passage, and found to be none at once: in quadratic time it would take hours."""
    assert passages(b"\x89PNG" + b"a" * 1_000_000) == ""
    assert passages(b"\x89PNG" + b"a" * 1_000 + b" is some readable title") != ""
