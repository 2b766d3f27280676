"""Shared fixtures: real sidecars, databases and Redis, all on loopback."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
import servers
import structlog
from hypothesis import settings
from support import RULES_ONLY, SidecarProcess, StartSidecar

from sidecar.storage import Store

# A busy machine makes an example slow, not wrong.
settings.register_profile("sidecar", deadline=None)
settings.load_profile("sidecar")


def pytest_xdist_auto_num_workers() -> int:
    """How many processes `-n auto` is: one more than cores, since tests wait for a good part of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Binary data is named by its argument: a time inside it would give each worker another id for one test."""
    binary = isinstance(val, bytes) and not (val.isascii() and val.decode("ascii").isprintable())
    return argname if binary else None


def pytest_collection_finish() -> None:
    """What was imported and collected stays, so the garbage collector need not go through it with every test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_logs() -> Iterator[None]:
    """Reset the logging configuration after each test."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def no_survivors() -> Iterator[None]:
    """Kill the sidecars that a test started, however it ends."""
    count = len(SidecarProcess.started)
    yield
    SidecarProcess.kill(keep=count)


@pytest.fixture(scope="session")
def start_sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartSidecar]:
    """Start sidecars with given settings; all are stopped at the end of the session."""
    started: list[SidecarProcess] = []

    def start(settings: Mapping[str, object] | None = None, *arguments: str) -> SidecarProcess:
        process = SidecarProcess(tmp_path_factory.mktemp("sidecar"), settings or {}, arguments)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        if process.process is not None:
            process.stop()


@pytest.fixture(scope="session")
def rules_sidecar(start_sidecar: StartSidecar) -> SidecarProcess:
    """A sidecar with only the rules layer and the echo upstream: starts fast, decides the clear cases."""
    return start_sidecar(RULES_ONLY)


@pytest.fixture(scope="session")
def full_sidecar(start_sidecar: StartSidecar) -> SidecarProcess:
    """A sidecar with rules and semantic layer, as shipped."""
    return start_sidecar()


@pytest.fixture(scope="session")
def postgres() -> Iterator[servers.PostgreSql]:
    """A PostgreSQL server for the whole session."""
    with servers.postgresql() as running:
        yield running


@pytest.fixture(scope="session")
def redis() -> Iterator[servers.RedisServer]:
    """A Redis server for the whole session."""
    with servers.redis() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind, so that stores are tested with both."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    running: servers.PostgreSql = request.getfixturevalue("postgres")
    return running.new_database()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    """An open, empty store of each kind."""
    opened = await Store.open(store_url)
    yield opened
    await opened.close()
