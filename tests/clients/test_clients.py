"""Real clients, installed from their packages, do a task without interaction through a sidecar with default settings.

The upstream is a scripted model: the tests check what the clients send, how the sidecar handles it, and how they react
to a refusal. Each has a new home and can reach only the sidecar: requests to other hosts are recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clients.kinds import CLIENTS, FILE, Client, Task, codex_by_websocket
from clients.place import Outcome, Place
from clients.scripted import ScriptedModel, scripted
from support import SidecarProcess, StartSidecar

pytestmark = [pytest.mark.neighbours, pytest.mark.timeout(900)]
FILES = Path(__file__).parent / "files"
NOTES = (FILES / FILE).read_text("utf-8")
BEFORE = "## Known problems\n"
PLANTED = NOTES.replace(BEFORE, (FILES / "order.md").read_text("utf-8") + BEFORE)
READ, ORDER = "tipping-bucket rain gauge", "marigold-seventeen"
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    """The model behind the sidecar, and the proxy of the clients for everything else."""
    with scripted() as running:
        yield running


@pytest.fixture(scope="module")
def sidecar(start_sidecar: StartSidecar, model: ScriptedModel) -> SidecarProcess:
    """A sidecar with the default configuration in front of it."""
    return start_sidecar({"upstream": {"url": model.url}, "log": {"format": "json"}})


class Trial:
    """One client that does one task, and the decisions of that time."""

    def __init__(self, sidecar: SidecarProcess, model: ScriptedModel, folder: Path) -> None:
        self.sidecar, self.model, self.folder = sidecar, model, folder
        self.before = len(sidecar.output)

    def run(self, client: Client, task: Task, notes: str = NOTES, *, url: str = "") -> Outcome:
        """Run the client in a new environment, with the sidecar or `url` as its model."""
        place = Place(self.folder, url or self.sidecar.base, self.model.url)
        for name, text in ((FILE, notes), ("todo.txt", "buy grease\n"), ("station.py", "print('ready')\n")):
            (place.work / name).write_text(text, "utf-8")
        outcome = place.run(client.command(place, task))
        assert self.model.elsewhere == []
        return outcome

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """Decisions of the sidecar since the start of the trial."""
        lines = self.sidecar.output[self.before :].splitlines()
        return [found for line in lines if '"decision_made"' in line and (found := json.loads(line))]

    @property
    def refusals(self) -> list[dict[str, Any]]:
        """Decisions to block."""
        return [found for found in self.decisions if found["action"] == "block"]


@pytest.fixture
def trial(sidecar: SidecarProcess, model: ScriptedModel, tmp_path: Path) -> Trial:
    """A trial that has not been run."""
    return Trial(sidecar, model, tmp_path / "first")


def plain(shown: str) -> str:
    """Text without frames, colours and line ends, so that wrapped output still matches."""
    return re.sub(r"\x1b\[[0-9;]*m|[\s│]", "", shown)


@each_client
def test_the_first_task_passes(trial: Trial, client: Client) -> None:
    """The client's own prompts and tool definitions, the task and the result of a tool are forwarded."""
    trial.model.begin(client.first.steps)
    outcome = trial.run(client, client.first)
    assert (outcome.code, trial.refusals) == (0, []), outcome.shown[-2000:]
    assert plain(client.first.answer) in plain(outcome.shown)


@each_client
def test_a_task_with_a_file_passes(trial: Trial, client: Client) -> None:
    """A file of 3 kB is forwarded as the result of a tool or in the context."""
    trial.model.begin(client.reading.steps)
    outcome = trial.run(client, client.reading)
    assert (outcome.code, trial.refusals) == (0, []), outcome.shown[-2000:]
    assert plain(client.reading.answer) in plain(outcome.shown)
    assert trial.model.holding(READ) > 0


@each_client
def test_an_order_in_the_file_is_refused(trial: Trial, client: Client) -> None:
    """The order never reaches the model, earlier steps do; the client shows its place and the decision."""
    trial.model.begin(client.reading.steps)
    outcome = trial.run(client, client.reading, PLANTED)
    assert (len(trial.refusals) > 0, trial.model.holding(ORDER)) == (True, 0), outcome.shown[-2000:]
    assert len(trial.model.requests) >= len(client.reading.steps) - 1
    said = {plain(f"decision {refusal['id']}") for refusal in trial.refusals}
    assert any(decision in plain(outcome.shown) for decision in said), outcome.shown[-2000:]
    assert plain(client.place) in plain(outcome.shown)


@each_client
def test_a_refusal_is_tried_no_more_often_than_a_plain_400(trial: Trial, client: Client) -> None:
    """The client retries a refusal no more often than a plain 400 of the model's server for the same order."""
    trial.model.begin(client.reading.steps)
    trial.run(client, client.reading, PLANTED)
    attempts = len(trial.refusals)
    trial.folder = trial.folder.with_name("second")
    trial.model.begin(client.reading.steps, ORDER)
    trial.run(client, client.reading, PLANTED, url=trial.model.url)
    assert 0 < attempts <= trial.model.refused


def test_codex_goes_on_over_http_where_it_asked_for_a_websocket(trial: Trial) -> None:
    """After one 426 it tries no second time, prints no warning, and does its task."""
    known = next(client for client in CLIENTS if client.name == "codex")
    client = replace(known, command=codex_by_websocket)
    trial.model.begin(client.first.steps)
    outcome = trial.run(client, client.first)
    assert [refusal["status"] for refusal in trial.refusals] == [426]
    assert (outcome.code, "econnecting" in outcome.shown) == (0, False), outcome.shown[-2000:]
    assert plain(client.first.answer) in plain(outcome.shown)
