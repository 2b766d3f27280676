"""What the first page says about the sidecar itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import dashboard
import pytest
from dashboard import NOW, DashboardSite

from sidecar import __version__
from sidecar.config import Settings
from sidecar.dashboard.service_status import ServiceStatus
from sidecar.storage import Store
from sidecar.types import LayerName

SETTINGS = Settings.model_validate(
    {
        "mode": "monitor",
        "upstream": {"url": "https://api.example.org/v1"},
        "models": {"llama*": {"upstream": {"url": "http://127.0.0.1:11434/v1"}}, "small": {"threshold": 0.4}},
    }
)
STATUS = ServiceStatus(SETTINGS, {LayerName.RULES: True, LayerName.LLM_JUDGE: False}, "r1", 277, (), (), 1, NOW)


def test_the_state_is_that_of_ready() -> None:
    """Problems forbid traffic, degradations do not."""
    assert STATUS.state == "ok"
    assert replace(STATUS, degraded=("redis",)).state == "degraded"
    assert replace(STATUS, degraded=("redis",), problems=("scan log",)).state == "not ready"


def test_layers_and_upstreams_are_those_in_force() -> None:
    """A layer that is switched on and was not loaded is missing; models without an upstream of their own add none."""
    assert [state for _, state in STATUS.layer_states] == ["on", "missing", "observes"]
    assert STATUS.upstreams == [("all models", "https://api.example.org/v1"), ("llama*", "http://127.0.0.1:11434/v1")]


ECHO = {"upstream": {"url": "echo://"}}
BOTH = dict.fromkeys((LayerName.RULES, LayerName.SEMANTIC), True)


async def shown(tmp_path: Path, status: ServiceStatus) -> dict[str, str]:
    """The first page as an admin and as a viewer see it."""
    store = await Store.open(f"sqlite:///{tmp_path}/status.db")
    async with dashboard.open_site(dashboard.settings(tmp_path), store, status) as site:
        pages = {name: (await visitor.get("/")).text for name, visitor in (("ada", site.ada), ("vic", site.vic))}
    await store.close()
    return pages


@pytest.mark.parametrize("broken", [False, True])
async def test_the_first_page_begins_with_the_status(tmp_path: Path, broken: bool) -> None:
    """Mode, upstream, layers, policy, last load, version; and what is wrong, of which the reasons are for admins."""
    troubles = {
        "problems": ("scan log cannot be written",),
        "degraded": ("Redis does not answer",),
        "rejected": "scan.treshold: unknown setting",
        "waiting": ("listen",),
    }
    status = replace(
        STATUS, generation=3, loaded_at=datetime(2026, 5, 2, 8, tzinfo=UTC), **(troubles if broken else {})
    )
    pages = await shown(tmp_path, status)
    for words in (
        "Mode monitor nothing is refused",
        "https://api.example.org/v1",
        "llama*",
        "semantic: missing",
        "llm judge: observes",
        "277 rules",
        "2026-05-02 08:00:00",
        f"Version {__version__}",
        "not ready" if broken else "reload 2",
    ):
        assert all(words in page for page in pages.values()), words
    assert pages["ada"].index("Status") < pages["ada"].index("Scans over time")
    for words in ("scan log cannot be written", "Redis does not answer", "A restart is needed for: listen", "rejected"):
        assert all((words in page) == broken for page in pages.values()), words
    assert ("scan.treshold" in pages["ada"], "scan.treshold" in pages["vic"]) == (broken, False)


async def test_an_ordinary_status_is_calm(tmp_path: Path) -> None:
    """Enforced, with an echo for an upstream, nothing in red, and nothing that lets more pass."""
    page = (await shown(tmp_path, replace(STATUS, settings=Settings.model_validate(ECHO), layers=BOTH)))["vic"]
    assert "Mode enforce attacks are refused Upstream echo:// Layers rules semantic llm judge: off" in page
    assert "Overview ok" in page
    assert "protection reduced" not in page
    assert "More passes than by default" not in page


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"layers": {"rules": {"enabled": False}, "semantic": {"enabled": False}}}, "layers: all are off"),
        ({"scan": {"threshold": 1}}, "scan.threshold: 1 blocks hardly anything"),
        ({"scan": {"sources": {"user": {"layers": []}}}}, "scan.sources.user.layers: none is in use"),
    ],
)
async def test_what_lets_more_pass_is_named_on_the_first_page(
    tmp_path: Path, values: dict[str, object], words: str
) -> None:
    """In place of the sentence that attacks are refused."""
    status = replace(STATUS, settings=Settings.model_validate({**ECHO, **values}), layers=BOTH)
    page = (await shown(tmp_path, status))["vic"]
    assert "Overview ok protection reduced" in page
    assert words in page
    assert "attacks are refused" not in page


async def test_keys_that_let_more_pass_are_named_on_the_first_page(site: DashboardSite) -> None:
    """By name, with a link to the keys."""
    form = {"name": "team-b", "environment": "production", "mode": "monitor"}
    await site.ada.post("/keys", form)
    page = await site.vic.get("/")
    assert "(team-b): mode monitor forwards everything, attacks too" in page.text
