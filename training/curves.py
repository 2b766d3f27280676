"""Draws what `evaluate --json` measured: `python -m training.curves FIGURES.json FOLDER` writes two SVG pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import click
import orjson

SIZE, EDGE = 360, 52
Point = tuple[float, float]


def picture(title: str, x: str, y: str, ticks: Sequence[tuple[float, str]], drawn: str) -> str:
    """A square plot; coordinates of ticks and drawing run from 0 to 1."""
    whole = SIZE + 2 * EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{whole}" font-family="sans-serif">',
        f'<rect width="{whole}" height="{whole}" fill="white"/>',
        f'<text x="{whole / 2}" y="24" text-anchor="middle" font-size="14">{title}</text>',
        f'<rect x="{EDGE}" y="{EDGE}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#888"/>',
        f'<text x="{whole / 2}" y="{whole - 10}" text-anchor="middle">{x}</text>',
        f'<text x="14" y="{whole / 2}" text-anchor="middle" transform="rotate(-90 14 {whole / 2})">{y}</text>',
    ]
    for at, name in ticks:
        left, _ = place((at, 0))
        lines.append(f'<line x1="{left}" y1="{EDGE}" x2="{left}" y2="{EDGE + SIZE}" stroke="#ddd"/>')
        lines.append(f'<text x="{left}" y="{EDGE + SIZE + 16}" text-anchor="middle">{name}</text>')
    for at in (0, 0.25, 0.5, 0.75, 1):
        _, top = place((0, at))
        lines.append(f'<line x1="{EDGE}" y1="{top}" x2="{EDGE + SIZE}" y2="{top}" stroke="#ddd"/>')
        lines.append(f'<text x="{EDGE - 6}" y="{top + 4}" text-anchor="end">{at:g}</text>')
    return "\n".join([*lines, drawn, "</svg>\n"])


def place(point: Point) -> Point:
    """From 0..1 to picture coordinates."""
    return round(EDGE + SIZE * point[0], 1), round(EDGE + SIZE * (1 - point[1]), 1)


def line(points: Sequence[Point], colour: str) -> str:
    """A line through the points."""
    path = " ".join(f"{x},{y}" for x, y in map(place, points))
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'


def recall(points: Sequence[Point]) -> str:
    """Recall over the false-positive rate, which runs in decades from 0.1 % to 100 %."""
    drawn = [((math.log10(rate) + 3) / 3, share) for rate, share in points]
    ticks = [(0.0, "0.1 %"), (1 / 3, "1 %"), (2 / 3, "10 %"), (1.0, "100 %")]
    return picture("Attacks found", "false-positive rate", "recall", ticks, line(drawn, "#0b62a3"))


def reliability(bins: Sequence[tuple[float, float, int]]) -> str:
    """Share of attacks over the predicted probability; on the diagonal the score is calibrated."""
    dots = []
    for stated, share, count in bins:
        x, y = place((stated, share))
        dots.append(f'<circle cx="{x}" cy="{y}" r="{2 + math.log10(count):.1f}" fill="#0b62a3"/>')
    ticks = [(at, f"{at:g}") for at in (0.0, 0.25, 0.5, 0.75, 1.0)]
    drawn = "\n".join([line([(0, 0), (1, 1)], "#bbb"), *dots])
    return picture("Calibration", "stated probability", "share of attacks", ticks, drawn)


@click.command()
@click.argument("figures", type=click.Path(path_type=Path, exists=True))
@click.argument("folder", type=click.Path(path_type=Path))
def main(figures: Path, folder: Path) -> None:
    """Write `semantic-recall.svg` and `semantic-calibration.svg`."""
    measured = orjson.loads(figures.read_bytes())["curves"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "semantic-recall.svg").write_text(recall(measured["recall"]), "utf-8")
    (folder / "semantic-calibration.svg").write_text(reliability(measured["reliability"]), "utf-8")


if __name__ == "__main__":
    main()
