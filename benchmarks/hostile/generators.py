"""The kinds of hostile requests of both generators, in one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import click

from benchmarks.hostile import bodies
from benchmarks.hostile.second.blocks import Kind
from benchmarks.hostile.second.kinds import GROWTH, KINDS

BOMB = 100
"""How many times larger the content of a compressed body is in load tests."""
COMPRESSED = ("gzip", "deflate", "zstd", "brotli")
"""First words of the names of compressed kinds of the first generator."""


@dataclass(frozen=True, slots=True)
class HostileKind:
    """A request of a random generator and the size of its decoded body in bytes, and the growth of compressed ones."""

    make: Callable[[Random, int], bytes]
    growth: int = 1

    def on_wire(self, chance: Random, size: int) -> bytes:
        """A request whose decoded body is `growth` times as large."""
        return self.make(chance, size * self.growth)

    def decoded_size(self, raw: bytes, size: int) -> int:
        """Bytes that a request of this size stands for: those of the request, if it is not compressed."""
        return size if self.growth > 1 else len(raw)


def with_key(raw: bytes, key: str) -> bytes:
    """The request with this key, if it is to the scan API, which needs one."""
    line, _, rest = raw.partition(b"\r\n")
    return b"%s\r\nX-API-Key: %s\r\n%s" % (line, key.encode(), rest) if b" /api/" in line else raw


def shrunk(make: Kind, growth: int) -> Kind:
    """A kind whose decoded body is `growth` times its size, as one whose decoded body has its size."""
    return lambda chance, size: make(chance, max(1, size // growth))


FIRST = {name: HostileKind(make, BOMB if name.startswith(COMPRESSED) else 1) for name, make in bodies.KINDS.items()}
SECOND = {
    f"second/{name}": HostileKind(shrunk(make, GROWTH.get(name, 1)), GROWTH.get(name, 1))
    for name, make in KINDS.items()
}
GENERATORS: Mapping[str, Mapping[str, HostileKind]] = {"first": FIRST, "second": SECOND, "both": {**FIRST, **SECOND}}
"""Kinds by name, by generator."""
BOTH = GENERATORS["both"]

option = click.option(
    "--generator", type=click.Choice(list(GENERATORS)), default="first", show_default=True, help="Whose kinds."
)
"""The option of the commands."""
