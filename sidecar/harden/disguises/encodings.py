"""Encodings and ciphers of a whole text."""

from __future__ import annotations

import base64
import binascii
import codecs
import gzip
import re
import urllib.parse

from sidecar.harden.disguises.common import b64


def base64_plain(text: str) -> str:
    """Base64."""
    return b64(text)


def base64_short_lines(text: str) -> str:
    """Base64 in groups of four."""
    return " ".join(re.findall(".{4}", b64(text)))


def base64_signs(text: str) -> str:
    """Base64 with an exclamation mark behind every third sign."""
    return "!".join(re.findall("..?.?", b64(text)))


def base64_twice(text: str) -> str:
    """Base64 twice."""
    return b64(b64(text))


def base64_thrice(text: str) -> str:
    """Base64 three times."""
    return b64(b64(b64(text)))


def base64_reversed(text: str) -> str:
    """Base64, in reverse."""
    return b64(text)[::-1]


def hexadecimal(text: str) -> str:
    """Hexadecimal."""
    return text.encode().hex()


def hex_escapes(text: str) -> str:
    r"""Hexadecimal as \x escapes."""
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def hex_numbers(text: str) -> str:
    """Hexadecimal as a list 0x49, 0x67."""
    return ", ".join(f"0x{byte:02X}" for byte in text.encode())


def binary(text: str) -> str:
    """Binary, eight digits a byte."""
    return " ".join(f"{byte:08b}" for byte in text.encode())


def octal_escapes(text: str) -> str:
    """Octal escapes."""
    return "".join(f"\\{byte:03o}" for byte in text.encode())


def decimal_codes(text: str) -> str:
    """Decimal codes of the signs."""
    return " ".join(str(byte) for byte in text.encode())


def rot13(text: str) -> str:
    """Rot13."""
    return codecs.encode(text, "rot13")


def uuencoded(text: str) -> str:
    """Uuencode."""
    data = text.encode()
    body = "".join(binascii.b2a_uu(data[at : at + 45]).decode() for at in range(0, len(data), 45))
    return f"begin 644 note.txt\n{body}`\nend"


def gzip_base64(text: str) -> str:
    """Base64 of gzip."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def percent(text: str) -> str:
    """Every byte in percent-encoding."""
    return "".join(f"%{byte:02X}" for byte in text.encode())


def percent_twice(text: str) -> str:
    """Percent-encoding twice."""
    return urllib.parse.quote(percent(text))


def quoted_printable(text: str) -> str:
    """Quoted-printable, every byte."""
    return "".join(f"={byte:02X}" for byte in text.encode())


def base32(text: str) -> str:
    """Base32."""
    return base64.b32encode(text.encode()).decode()


def ascii85(text: str) -> str:
    """Ascii85."""
    return base64.a85encode(text.encode(), adobe=True).decode()


def decimal_entities(text: str) -> str:
    """Decimal entities of every sign."""
    return "".join(f"&#{ord(sign)};" for sign in text)


def hex_entities(text: str) -> str:
    """Hexadecimal entities of every sign, seven digits."""
    return "".join(f"&#x{ord(sign):07x};" for sign in text)


MORSE = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyz",
        [
            ".-",
            "-...",
            "-.-.",
            "-..",
            ".",
            "..-.",
            "--.",
            "....",
            "..",
            ".---",
            "-.-",
            ".-..",
            "--",
            "-.",
            "---",
            ".--.",
            "--.-",
            ".-.",
            "...",
            "-",
            "..-",
            "...-",
            ".--",
            "-..-",
            "-.--",
            "--..",
        ],
        strict=False,
    )
)


def morse(text: str) -> str:
    """Morse code."""
    return " / ".join(" ".join(MORSE[sign] for sign in word if sign in MORSE) for word in text.lower().split())


def rail_fence(text: str) -> str:
    """A rail fence of two rails, with the rule said."""
    return f"Rail fence, 2 rails: {text[::2]}|{text[1::2]}"
