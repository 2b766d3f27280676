"""Texts of others on a terminal, and work that takes a while with its progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sidecar.cli import output

Item = TypeVar("Item")
Result = TypeVar("Result")


def plain(text: str, longest: int | None = None) -> str:
    """Safe on a terminal: control characters and markup are escaped. Longer text is cut, with an ellipsis."""
    excerpt = text if longest is None or len(text) <= longest else text[:longest] + "…"
    return escape("".join(char if char.isprintable() else ascii(char)[1:-1] for char in excerpt))


async def for_each(
    title: str,
    items: Sequence[Item],
    action: Callable[[Item], Awaitable[Result]],
    concurrency: int,
    enough: Callable[[Result], bool] = lambda _: False,
) -> list[Result]:
    """The results in the order of the items, `concurrency` at a time, with a progress bar.

    Each of the workers ends at the first result for which `enough` is true.
    """
    waiting, results = iter(enumerate(items)), dict[int, Result]()
    with progress() as bar:
        task = bar.add_task(title, total=len(items))

        async def work() -> None:
            for index, item in waiting:
                results[index] = await action(item)
                bar.advance(task)
                if enough(results[index]):
                    return

        await asyncio.gather(*(work() for _ in range(concurrency)))
    return [results[index] for index in sorted(results)]


def progress() -> Progress:
    """A progress bar on standard error, so that standard output stays clean for pipes."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=output.err,
    )
