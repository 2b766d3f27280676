"""Background work goes on after an error and ends when it is told to."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.util.tasks import Background


async def repeated(error: Exception) -> None:
    """A step that fails with this each time, until it was run three times."""
    runs, enough = 0, asyncio.Event()

    async def step() -> None:
        nonlocal runs
        runs += 1
        if runs == 3:
            enough.set()
        raise error

    background = Background()
    background.repeat("work", step, 0.0)
    await asyncio.wait_for(enough.wait(), 10)
    await background.close()


async def test_repeated_work_survives_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """A step that fails is logged by its kind, without its words, and run again."""
    await repeated(ValueError("canary-4711"))
    said = capsys.readouterr()
    assert "ValueError" in said.out + said.err
    assert "canary-4711" not in said.out + said.err


class Untellable(type):
    """Of errors whose very name there is no memory for."""

    @property
    def __name__(cls) -> str:
        """Nobody will know."""
        raise MemoryError


class Trouble(Exception, metaclass=Untellable):
    """What a step fails with."""


async def test_repeated_work_goes_on_where_the_failure_cannot_be_told() -> None:
    """Without memory for the line in the log there is none, and the step is run again all the same."""
    await repeated(Trouble())


async def test_close_ends_what_runs_and_waits_for_it() -> None:
    """After `close` nothing runs any more, and cleaning up was done."""
    cleaned = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    background = Background()
    task = background.spawn(work())
    await asyncio.sleep(0)
    await background.close()
    assert task.cancelled()
    assert cleaned.is_set()


async def test_a_spawned_task_gives_its_result() -> None:
    """Whoever waits gets it."""

    async def work() -> int:
        return 42

    background = Background()
    assert await background.spawn(work()) == 42
    await background.close()
