"""Tests of background tasks: they continue after an error and end on close."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.errors import StoreUnavailable
from sidecar.util.tasks import Background


async def repeated(error: Exception) -> None:
    """Run a step that raises this error each time, until it ran three times."""
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


async def test_a_repeated_step_survives_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """A failing step is logged by its error type, without the error's text, and run again."""
    await repeated(ValueError("canary-4711"))
    output = capsys.readouterr()
    assert "ValueError" in output.out + output.err
    assert "canary-4711" not in output.out + output.err


async def test_what_the_database_said_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """Its messages name the server and the reason, and hold no values."""
    await repeated(StoreUnavailable("PostgreSQL at db:5432/sidecar: too many connections"))
    output = capsys.readouterr()
    assert "db:5432/sidecar: too many connections" in output.out + output.err


class Untellable(type):
    """The metaclass of errors whose name cannot be read for lack of memory."""

    @property
    def __name__(cls) -> str:
        """Always fails."""
        raise MemoryError


class Trouble(Exception, metaclass=Untellable):
    """The error of the step."""


async def test_a_repeated_step_survives_a_failure_that_cannot_be_logged() -> None:
    """Without memory for the log line the step is run again all the same."""
    await repeated(Trouble())


async def test_close_cancels_and_awaits_tasks() -> None:
    """After `close` no task runs, and each has completed its cleanup."""
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


async def test_a_spawned_task_returns_its_result() -> None:
    """Awaiting the task gives its result."""

    async def work() -> int:
        return 42

    background = Background()
    assert await background.spawn(work()) == 42
    await background.close()
