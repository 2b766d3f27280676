"""Twin of sidecar/util/fair_queue.py."""

from __future__ import annotations

from sidecar.util.fair_queue import FairQueue


def order(queue: FairQueue[str], seconds: float) -> list[str]:
    """The tasks in the order of their turns, each complete after this time."""
    taken = []
    while len(queue):
        client, task = queue.take()
        queue.finish(client, seconds)
        taken.append(task)
    return taken


def test_clients_share_the_time_whatever_the_number_of_their_tasks() -> None:
    """Of a client with a hundred tasks and one with two, each has every second turn."""
    queue = FairQueue[str]()
    for number in range(100):
        queue.add("many", f"many {number}")
    queue.add("few", "few 1")
    queue.add("few", "few 2")
    assert [task.split()[0] for task in order(queue, 1.0)[:4]] == ["many", "few", "many", "few"]


def test_a_client_with_short_tasks_has_more_turns() -> None:
    """A client whose tasks take a tenth of the time has ten turns for one of the other."""
    queue, turns = FairQueue[str](), []
    queue.add("long", "long")
    queue.add("short", "short")
    for _ in range(55):
        client, task = queue.take()
        queue.give_back(client, task, 1.0 if client == "long" else 0.1)
        turns.append(client)
    assert 4 <= turns.count("long") <= 6


def test_a_client_that_comes_does_not_make_up_for_the_time_before() -> None:
    """A newcomer is next, but does not keep out a client that has worked before it came."""
    queue = FairQueue[str]()
    queue.add("old", "old")
    for _ in range(10):
        queue.give_back(*queue.take(), seconds=1.0)
    queue.add("new", "new")
    turns = []
    for _ in range(4):
        client, task = queue.take()
        queue.give_back(client, task, 1.0)
        turns.append(client)
    assert sorted(turns) == ["new", "new", "old", "old"]


def test_new_tasks_come_first_within_a_client() -> None:
    """A new task comes before the client's waiting ones, one that was given back after them."""
    queue = FairQueue[str]()
    queue.add("one", "first")
    client, task = queue.take()
    queue.add("one", "second")
    queue.give_back(client, task, 1.0)
    queue.add("one", "third")
    assert order(queue, 1.0) == ["third", "second", "first"]


def test_a_client_without_tasks_is_forgotten() -> None:
    """However many clients come and go, nothing remains of them."""
    queue = FairQueue[str]()
    for number in range(100):
        queue.add(f"client {number}", "task")
    assert len(order(queue, 1.0)) == 100
    queue.add("last", "task")
    assert (len(queue), queue.drain(), len(queue)) == (1, ["task"], 0)
    assert queue.__dict__ == FairQueue[str]().__dict__


def test_old_tasks_have_turns_while_new_ones_come() -> None:
    """With a new task at every turn of the client, its old ones still end, whether they have begun or not."""
    queue, ended = FairQueue[str](), []
    queue.add("one", "begun")
    queue.give_back(*queue.take(), seconds=1.0)
    queue.add("one", "waiting")
    for number in range(20):
        queue.add("one", f"new {number}")
        client, task = queue.take()
        queue.finish(client, 1.0)
        ended.append(task)
    assert {"begun", "waiting"} < set(ended)
    assert len([task for task in ended if task.startswith("new")]) >= 15
