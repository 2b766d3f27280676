"""Twin of sidecar/cli/terminal.py."""

from __future__ import annotations

import asyncio

from rich.text import Text

from sidecar.cli.terminal import for_each, plain


def test_a_text_is_safe_on_a_terminal() -> None:
    """Control and bidirectional characters, line ends and rich's markup are shown, not obeyed; letters stay."""
    assert Text.from_markup(plain("\x1b[31m[red]ü\u202e\n中")).plain == "\\x1b[31m[red]ü\\u202e\\n中"


def test_a_long_text_is_cut_before_it_is_escaped() -> None:
    """To so many of its characters; one of exactly that length is whole."""
    assert plain("\x1b" * 3, 2) == "\\x1b\\x1b…"
    assert plain("ab", 2) == "ab"


async def test_results_are_in_the_order_of_the_items() -> None:
    """Also where a later one is ready first; never more at once than allowed."""
    running, most = 0, 0

    async def slow(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(10 - number):
            await asyncio.sleep(0)
        running -= 1
        return number * 2

    assert await for_each("testing", range(6), slow, 3) == [0, 2, 4, 6, 8, 10]
    assert most == 3


async def test_work_ends_once_there_is_enough() -> None:
    """What is not begun stays undone."""

    async def same(number: int) -> int:
        return number

    assert await for_each("testing", range(100), same, 1, lambda number: number >= 4) == [0, 1, 2, 3, 4]
