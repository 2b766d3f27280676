"""A queue of work that clients share by the time it takes, whatever the number of their tasks.

The next task is one of the client that has used the least time while it was waiting; a client that comes starts with
the least time of the others. So a client with many or long tasks does not delay one with few and short ones.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Tasks by client. Not thread-safe. Invariant: a client is known exactly as long as it has a task here or taken."""

    def __init__(self) -> None:
        self._tasks: dict[str, deque[T]] = {}
        self._used: dict[str, float] = {}
        self._length = 0

    def __len__(self) -> int:
        """Tasks that wait or are taken."""
        return self._length

    def add(self, client: str, task: T) -> None:
        """A new task, before the client's other ones."""
        if client not in self._tasks:
            self._used[client] = min(self._used.values(), default=0.0)
            self._tasks[client] = deque()
        self._tasks[client].appendleft(task)
        self._length += 1

    def take(self) -> tuple[str, T]:
        """The next task, and its client. Call `give_back` or `finish` before the next `take`."""
        client = min((name for name, tasks in self._tasks.items() if tasks), key=self._used.__getitem__)
        return client, self._tasks[client].popleft()

    def give_back(self, client: str, task: T, seconds: float) -> None:
        """The task that was taken has run for this time and is not complete: it is now the client's last."""
        self._used[client] += seconds
        self._tasks[client].append(task)

    def finish(self, client: str, seconds: float) -> None:
        """The task that was taken is complete."""
        self._used[client] += seconds
        self._length -= 1
        if not self._tasks[client]:
            del self._tasks[client], self._used[client]

    def drain(self) -> list[T]:
        """Take all tasks; none may be taken now."""
        tasks = [task for queue in self._tasks.values() for task in queue]
        self._tasks.clear()
        self._used.clear()
        self._length = 0
        return tasks
