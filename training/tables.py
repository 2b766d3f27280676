"""Product quantisation of word tables (Jegou et al., "Product quantization for nearest neighbor search", 2011).

A word vector is cut into short pieces; each piece is kept as the number, one byte, of the nearest of 256 centroids
of its own place. A table of 32-bit numbers becomes a sixteenth with pieces of four, and a lookup stays a lookup.
"""

from __future__ import annotations

import torch
from torch import nn

CENTROIDS = 256


class Table(nn.Module):
    """Vectors of words: unit vectors by their codes, and the length of each. It does not learn."""

    def __init__(self, words: int, width: int, piece: int) -> None:
        super().__init__()
        places = -(-width // piece)
        self.width = width
        self.register_buffer("codes", torch.zeros(words, places, dtype=torch.uint8))
        self.register_buffer("book", torch.zeros(places, CENTROIDS, piece, dtype=torch.float16))
        self.register_buffer("length", torch.zeros(words, dtype=torch.float16))

    @classmethod
    def of(cls, table: torch.Tensor, piece: int, weight: torch.Tensor | None = None) -> Table:
        """Quantise vectors (words, width), with so many numbers to a code; words of more weight are kept better."""
        made = cls(*table.shape, piece)
        made.fill(table, weight)
        return made

    def fill(self, table: torch.Tensor, weight: torch.Tensor | None = None) -> None:
        """Take the place of another table of the same shape."""
        length = table.norm(dim=1).clamp_min(1e-6)
        lacking = self.codes.shape[1] * self.book.shape[2] - self.width
        units = nn.functional.pad(table / length[:, None], (0, lacking))
        codes, book = quantised(units, torch.ones(len(table)) if weight is None else weight, self.book.shape[2])
        self.codes.copy_(codes)
        self.book.copy_(book)
        self.length.copy_(length)

    def all(self) -> torch.Tensor:
        """(words, width): the vectors as they are kept."""
        return self(torch.arange(len(self.codes)))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """(...) word numbers -> (..., width)."""
        places = torch.arange(self.book.shape[0]) * CENTROIDS
        pieces = self.book.reshape(-1, self.book.shape[2])[self.codes[words].long() + places]
        return pieces.flatten(-2)[..., : self.width].float() * self.length[words].unsqueeze(-1).float()


def quantised(
    table: torch.Tensor, weight: torch.Tensor, piece: int, rounds: int = 10, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (words, places) and centroids (places, 256, piece) of a table (words, width); `piece` divides the width."""
    generator = torch.Generator().manual_seed(seed)
    places = table.float().reshape(table.shape[0], -1, piece).transpose(0, 1)
    found = [_clustered(points, weight, rounds, generator) for points in places]
    return torch.stack([codes for codes, _ in found], 1), torch.stack([book for _, book in found])


def _clustered(
    points: torch.Tensor, weight: torch.Tensor, rounds: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lloyd's rounds from drawn points; a centroid that nobody is near stays where it is."""
    book = points[torch.multinomial(weight.float(), CENTROIDS, generator=generator)].clone()
    for _ in range(rounds):
        nearest = _nearest(points, book)
        sums = torch.zeros_like(book).index_add_(0, nearest, points * weight[:, None])
        mass = torch.zeros(CENTROIDS).index_add_(0, nearest, weight)
        book = torch.where(mass[:, None] > 0, sums / mass.clamp_min(1e-12)[:, None], book)
    return _nearest(points, book).to(torch.uint8), book


def _nearest(points: torch.Tensor, book: torch.Tensor) -> torch.Tensor:
    return (book.square().sum(1) - 2 * points @ book.T).argmin(1)
