"""The figures as tables and plots, written to docs/performance.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from html import escape
from pathlib import Path

from benchmarks.speed.goals import BARE, DIRECT, Results, goals, ratios

DOCS = Path(__file__).parent.parent.parent / "docs"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
COLOURS = ("#4878a8", "#e1812c", "#6aa56a", "#a86ab0", "#8c8c8c", "#c44e52", "#b8a03a")


def write(figures: Results) -> None:
    """Write the tables between the marks of the page, and the plots next to it."""
    page = DOCS / "performance.md"
    before, _, tail = page.read_text("utf-8").partition(BEGIN)
    after = tail.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{tables(figures)}\n{END}{after}", "utf-8")
    names = [name for name in figures["latency"]["1000"] if name != DIRECT]
    sizes = {f"{int(size) // 1000:,} KB": rows for size, rows in figures["latency"].items()}
    latencies = {label: {n: _added(rows, n) for n in names if n in rows} for label, rows in sizes.items()}
    (DOCS / "performance-latency.svg").write_text(bars("Added to a request (ms, median)", latencies), "utf-8")
    loads = {f"c={c}": {n: _median(rows[n], "per_s") for n in rows} for c, rows in figures["load"].items()}
    (DOCS / "performance-throughput.svg").write_text(bars("Requests a second, 1 KB", loads), "utf-8")


def tables(figures: Results) -> str:
    """All tables."""
    goal_rows = [goal.row() for goal in goals(figures)]
    parts = [
        f"Measured {figures['date']}: {figures['machine']}; {figures['rounds']} rounds.",
        table(["goal", "bound", "measured (range of the rounds)", "met"], goal_rows),
        "What a request of one message takes on one connection (milliseconds, median; added to direct in brackets):",
        table(["", *(f"{int(size) // 1000:,} KB" for size in figures["latency"])], _latencies(figures)),
        "At once, 1 KB each:",
        table(["", "c", "requests/s", "to bare", "processor ms", "p99 ms"], _loads(figures)),
        "Streams: 40 chunks 5 ms apart, one after the other; and 16 of 200 chunks a second at once:",
        table(["", "first chunk ms", "chunk late by ms", "chunks/s of 16", "late p99 ms"], _streamed(figures)),
        "The scan API, rules alone, 1 KB:",
        table(["one by one ms", "c=16 prompts/s", "batch of 16 ms"], [_scanned(figures)]),
        "The scan API with the semantic layer, mixed prompts (120 of a round, rows of our corpus), rules included:",
        table(["p50 ms", "p95 ms", "c=16 prompts/s"], [_mixed(figures)]),
        "Processes:",
        table(["", "start to ready s", "resident MB at the start", "after the load"], _processes(figures)),
    ]
    return "\n\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _median(rows: Sequence[dict[str, float]], figure: str) -> float:
    return statistics.median(row[figure] for row in rows)


def _added(rows: Results, name: str) -> float:
    return statistics.median(
        float(a["p50_ms"]) - float(d["p50_ms"]) for a, d in zip(rows[name], rows[DIRECT], strict=True)
    )


def _latencies(figures: Results) -> list[list[str]]:
    def cell(rows: Results, name: str) -> str:
        if name not in rows:
            return ""
        overhead = f" ({_added(rows, name):.2f})" if name != DIRECT else ""
        return f"{_median(rows[name], 'p50_ms'):.2f}{overhead}"

    every = figures["latency"]
    return [[name, *(cell(rows, name) for rows in every.values())] for name in every["1000"]]


def _loads(figures: Results) -> list[list[str]]:
    return [
        [
            name,
            clients,
            f"{_median(rows[name], 'per_s'):,.0f}",
            f"{statistics.median(ratios(rows, name, BARE, 'per_s')):.2f}",
            f"{_median(rows[name], 'cpu_ms'):.2f}",
            f"{_median(rows[name], 'p99_ms'):.1f}",
        ]
        for clients, rows in figures["load"].items()
        for name in rows
    ]


def _streamed(figures: Results) -> list[list[str]]:
    calm, busy = figures["streams"], figures["busy streams"]
    return [
        [
            name,
            f"{_median(calm[name], 'first_ms'):.2f}",
            f"{_median(calm[name], 'late_ms'):.3f}",
            f"{_median(busy[name], 'chunks_per_s'):,.0f}",
            f"{_median(busy[name], 'late_p99_ms'):.1f}",
        ]
        for name in calm
    ]


def _mixed(figures: Results) -> list[str]:
    return [f"{_median(figures['semantic'], name):,.1f}" for name in ("p50_ms", "p95_ms", "c16_per_s")]


def _scanned(figures: Results) -> list[str]:
    rows = next(iter(figures["scan API"].values()))
    return [f"{_median(rows, figure):,.2f}" for figure in ("p50_ms", "c16_per_s", "batch_of_16_ms")]


def _processes(figures: Results) -> list[list[str]]:
    def sizes(values: Sequence[float]) -> str:
        return " + ".join(f"{value:.0f}" for value in values)

    return [
        [name, f"{facts['ready_s']:.2f}", sizes(facts["resident_mb"]), sizes(facts["resident_after_mb"])]
        for name, facts in figures["processes"].items()
    ]


def bars(title: str, groups: dict[str, dict[str, float]]) -> str:
    """Groups of bars on a logarithmic scale, as SVG."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    values = [value for group in groups.values() for value in group.values()]
    low = 10 ** math.floor(math.log10(max(min(values), 1e-3)))
    high = 10 ** math.ceil(math.log10(max(values)))

    def length(value: float) -> float:
        return 360 * math.log10(max(value, low) / low) / math.log10(high / low)

    parts, y = [f'<text x="10" y="22" font-size="16">{escape(title)}, logarithmic</text>'], 40
    for label, group in groups.items():
        parts.append(f'<text x="10" y="{y + 12}" font-weight="bold">{escape(label)}</text>')
        for name, value in group.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            parts.append(f'<text x="250" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
            parts.append(
                f'<rect x="258" y="{y + 1}" width="{max(1.0, length(value)):.1f}" height="14" fill="{colour}"/>'
            )
            parts.append(f'<text x="{264 + length(value):.1f}" y="{y + 12}">{_shown(value)}</text>')
            y += 19
        y += 10
    body = "\n".join(parts)
    size = f'width="720" height="{y}" viewBox="0 0 720 {y}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n{body}\n</svg>\n'


def _shown(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"
