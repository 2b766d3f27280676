"""Multipart forms of the second generator."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

from benchmarks.hostile.second.blocks import (
    EDITS,
    JSON,
    WORDS,
    Kind,
    attack,
    base_64,
    dumps,
    joined,
    nested,
    of_body,
    prose,
    utf8,
    word,
)
from benchmarks.hostile.second.codings import bomb, gz

FIELD, TYPE = 'Content-Disposition: form-data; name="prompt"', "Content-Type: "
TRANSFER = "Content-Transfer-Encoding: "
EDGE = "edge"
END = b"--edge--\r\n"
MAX_DEPTH = 2_000


def part(body: bytes, *fields: str, edge: str = EDGE) -> bytes:
    """A part with these header fields."""
    return utf8("\r\n".join([f"--{edge}", *(fields or [FIELD]), "", ""])) + body + b"\r\n"


def form(make: Callable[[Random], bytes]) -> Kind:
    """A form of as many parts as fit."""
    return lambda chance, size: utf8(joined(lambda: make(chance).decode("latin-1"), size, "")) + END


def file(chance: Random) -> bytes:
    """A text file with a long name."""
    text = utf8(attack(chance))
    return part(text, f'{FIELD}; filename="{word(chance, 99)}.txt"', TYPE + "text/plain")


def long_head(chance: Random) -> bytes:
    """A part with many header fields."""
    return part(b"x", FIELD, *(f"X-{word(chance, 4)}: {word(chance, 50)}" for _ in WORDS))


def nested_parts(chance: Random, size: int) -> bytes:
    """Multipart bodies in one another."""
    depth = max(1, min(size // 110, MAX_DEPTH))
    edges = [EDGE, *(f"e{number}" for number in range(1, depth + 1))]
    opened = [part(b"", f"{TYPE}multipart/mixed; boundary={inner}", edge=edge)[:-2] for edge, inner in pairwise(edges)]
    ends = b"".join(b"--e%d--\r\n" % number for number in range(depth, 0, -1)) + END
    return b"".join(opened) + part(utf8(prose(chance, size // 9)), edge=edges[-1]) + ends


PARTS: dict[str, Kind] = {
    "many_fields": form(lambda c: part(utf8(attack(c)))),
    "empty_parts": lambda _, n: b"--edge\r\n\r\n\r\n" * (n // 12) + END,
    "files": form(file),
    "long_part_headers": form(long_head),
    "boundary_lookalikes": lambda _, n: part(b"\r\n--edgf\r\n--edg\r\n-\r\n--" * (n // 24)) + END,
    "no_line_ends": lambda _, n: part(b"-" * n) + END,
    "no_end": lambda c, n: part(utf8(prose(c, n)))[:-2],
    "preamble": lambda _, n: b"\r\n" * (n // 2) + part(b"hi") + END,
    "base64_parts": form(lambda c: part(utf8(nested(attack(c), [base_64], 900)), FIELD, TRANSFER + "base64")),
    "quoted_printable": lambda _, n: part(b"=69=\r\n" * (n // 6), FIELD, TRANSFER + "quoted-printable") + END,
    "gzip_parts": lambda c, n: part(gz(bomb(c, n * 10)), FIELD, "Content-Encoding: gzip") * 10 + END,
    "json_parts": form(lambda c: part(dumps({"prompt": attack(c)}), FIELD, TYPE + JSON)),
    "name_parameters": form(lambda _: part(b"x", FIELD + "".join(f"; name*{n}*=%41" for n in range(60)))),
    "nested": nested_parts,
}
"""Bodies by name."""


def media_type(name: str) -> str:
    """The content type of a form."""
    return f"multipart/{'mixed' if name == 'nested' else 'form-data'}; boundary={EDGE}"


FORMS: dict[str, Kind] = {f"multipart_{name}": of_body(EDITS, make, media_type(name)) for name, make in PARTS.items()}
"""All by name."""
