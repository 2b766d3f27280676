"""Twin of attachments/picture.py: what the engine reads of a picture, and what is said to be missing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from picture_files import SAMPLES, bomb, chunk, gif, png, turned_jpeg, webp_container

from sidecar.attachments import picture
from sidecar.attachments.processes import SANDBOX
from sidecar.config import Pictures

TEXT = "The EVIL report"
TERMS = Pictures()
JPEG, WEBP = (SAMPLES / "evil.jpg").read_bytes(), (SAMPLES / "evil.webp").read_bytes()
LOSSLESS = (SAMPLES / "evil.lossless.webp").read_bytes()


def run(data: bytes, *, characters: int = TERMS.characters) -> subprocess.CompletedProcess[bytes]:
    """The program as the server runs it, within the shipped memory."""
    arguments = [str(value) for value in (picture.__file__, TERMS.memory, 60, TERMS.pixels, characters)]
    command = [sys.executable, "-I", str(SANDBOX), *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=100, env={}, check=False)


def read(data: bytes, **bounds: int) -> tuple[str, bool]:
    """The text that it writes, and whether it is all."""
    result = run(data, **bounds)
    assert result.returncode == 0, result.stderr.decode()
    output = json.loads(result.stdout)
    return output["text"], output["whole"]


WHOLE = {
    "PNG": png(TEXT),
    "JPEG": JPEG,
    "upright JPEG": turned_jpeg(1),
    "WebP": WEBP,
    "lossless WebP": LOSSLESS,
    "WebP in the extended form": webp_container(0),
    "GIF": gif(TEXT),
}


@pytest.mark.parametrize("name", WHOLE)
def test_text_is_read_in_every_format(name: str) -> None:
    """By the real engine, in the confined process."""
    assert read(WHOLE[name]) == (TEXT, True)


PARTIAL = {
    "several frames": gif(TEXT, "Hello"),
    "a transparent colour": gif(TEXT, transparent=True),
    "an alpha channel": png(TEXT, alpha=True),
    "a transparent grey": png(TEXT, chunk(b"tRNS", b"\0\x07")),
    "an animated PNG": png(TEXT, chunk(b"acTL", bytes([0, 0, 0, 1, 0, 0, 0, 0]))),
    "turned by a viewer": turned_jpeg(6),
    "turned by a viewer, in the second order of bytes": turned_jpeg(8, "little"),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_what_a_viewer_shows_differently_is_not_whole(name: str) -> None:
    """Its text is read as it is stored."""
    assert read(PARTIAL[name]) == (TEXT, False)


def test_the_flags_of_a_webp_are_read() -> None:
    """Those of animation and transparency."""
    assert [picture.header_of(webp_container(flags)).plain for flags in (0x02, 0x10, 0x20)] == [False, False, True]
    transparent = LOSSLESS[:24] + bytes([LOSSLESS[24] | 0x10]) + LOSSLESS[25:]
    assert not picture.header_of(transparent).plain


def test_a_picture_without_text_is_whole() -> None:
    """It says nothing."""
    assert read(png("")) == ("", True)


def test_further_text_is_left_out_and_said() -> None:
    """Beyond the bound of characters."""
    assert read(png(TEXT), characters=8) == ("The EVIL", False)


@pytest.mark.parametrize("name", WHOLE)
def test_the_size_is_read_without_decoding(name: str) -> None:
    """That of the sample, or what was drawn."""
    header = picture.header_of(WHOLE[name])
    assert (header.width, header.height, header.plain) == (
        (1190, 160, True) if name in {"PNG", "GIF"} else (420, 80, True)
    )


def test_a_bomb_is_not_decoded() -> None:
    """It is refused by its header, before the engine sees it."""
    assert len(bomb()) < 200_000
    result = run(bomb())
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"too many pixels" in result.stderr


def test_a_frame_larger_than_the_screen_of_a_gif_counts() -> None:
    """A decoder may make room for it."""
    data = gif(TEXT)
    assert picture.header_of(data[:6] + bytes([1, 0, 1, 0]) + data[10:]) == picture.header_of(data)


DAMAGED = {
    **{f"{name}, cut off in its head": data[:20] for name, data in WHOLE.items()},
    "PNG, cut off": png(TEXT)[:400],
    "lossless WebP, cut off": LOSSLESS[:300],
    "not a picture": b"text",
    "empty": b"",
    "JPEG without a frame": b"\xff\xd8\xff\xda\0\x02\0",
    "a bitmap": b"BM" + bytes(60),
    "an unknown WebP": b"RIFF\0\0\0\0WEBPVP8?" + bytes(20),
    "a GIF without a frame": gif(TEXT)[:397] + b";",
    "a GIF with a foreign block": gif(TEXT)[:397] + b"\x7f" + gif(TEXT)[398:],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_cannot_be_read_ends_the_program(name: str) -> None:
    """Without a word; the caller takes that for unread."""
    result = run(DAMAGED[name])
    assert (result.returncode != 0, result.stdout) == (True, b"")
