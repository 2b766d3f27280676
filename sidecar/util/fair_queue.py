"""A queue of work that clients share by the time it takes, whatever the number of their tasks.

The next task is one of the client that has used the least time while it was waiting; a client that comes starts with
the least time of the others. So a client with many or long tasks does not delay one with few and short ones. Within a
client new tasks come first, but every few turns the one that has waited longest: it ends however many new ones come.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")

OLDEST_EVERY = 4
"""Of so many turns of a client, one is for the task that has waited longest."""


class _Client(Generic[T]):
    """The waiting tasks of one client, each with the number of its arrival; in each queue the first waits longest."""

    def __init__(self, seconds_used: float) -> None:
        self.seconds_used = seconds_used
        self._turns, self._arrivals = 0, count()
        self._new: deque[tuple[int, T]] = deque()
        self._begun: deque[tuple[int, T]] = deque()

    def __bool__(self) -> bool:
        """Whether a task waits."""
        return bool(self._new or self._begun)

    def add(self, task: T) -> None:
        """A task that has not run yet."""
        self._new.append((next(self._arrivals), task))

    def give_back(self, task: T) -> None:
        """A task that has run and is not complete."""
        self._begun.append((next(self._arrivals), task))

    def take(self) -> T:
        """The newest task, or the one that has waited longest."""
        self._turns += 1
        if self._turns % OLDEST_EVERY == 0:
            return min((tasks for tasks in (self._new, self._begun) if tasks), key=lambda tasks: tasks[0]).popleft()[1]
        return self._new.pop()[1] if self._new else self._begun.popleft()[1]


class FairQueue(Generic[T]):
    """Tasks by client. Not thread-safe. Invariant: a client is known exactly as long as it has a task here or taken."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client[T]] = {}
        self._length = 0

    def __len__(self) -> int:
        """Tasks that wait or are taken."""
        return self._length

    def add(self, client: str, task: T) -> None:
        """A new task, before the client's other ones."""
        if client not in self._clients:
            self._clients[client] = _Client(min((known.seconds_used for known in self._clients.values()), default=0.0))
        self._clients[client].add(task)
        self._length += 1

    def take(self) -> tuple[str, T]:
        """The next task, and its client. Call `give_back` or `finish` before the next `take`."""
        name, client = min((item for item in self._clients.items() if item[1]), key=lambda item: item[1].seconds_used)
        return name, client.take()

    def give_back(self, client: str, task: T, seconds: float) -> None:
        """The task that was taken has run for this time and is not complete: it comes after the client's others."""
        self._clients[client].seconds_used += seconds
        self._clients[client].give_back(task)

    def finish(self, client: str, seconds: float) -> None:
        """The task that was taken is complete."""
        self._clients[client].seconds_used += seconds
        self._length -= 1
        if not self._clients[client]:
            del self._clients[client]

    def drain(self) -> list[T]:
        """Take all tasks; none may be taken now."""
        tasks = []
        for client in self._clients.values():
            while client:
                tasks.append(client.take())
        self._clients.clear()
        self._length = 0
        return tasks
