"""Fixtures that more than one test module needs: real sidecar processes on loopback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from support import RULES_ONLY, SidecarProcess, StartSidecar


@pytest.fixture(scope="session")
def start_sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartSidecar]:
    """Start sidecars with given settings; all end with the session."""
    started: list[SidecarProcess] = []

    def start(settings: Mapping[str, object] | None = None, *arguments: str) -> SidecarProcess:
        made = SidecarProcess(tmp_path_factory.mktemp("sidecar"), settings or {}, arguments)
        started.append(made)
        return made.start()

    yield start
    for made in started:
        if made.process is not None:
            made.stop()


@pytest.fixture(scope="session")
def rules_sidecar(start_sidecar: StartSidecar) -> SidecarProcess:
    """A sidecar with the rules layer alone and the echo upstream: starts fast, decides the clear cases."""
    return start_sidecar(RULES_ONLY)


@pytest.fixture(scope="session")
def full_sidecar(start_sidecar: StartSidecar) -> SidecarProcess:
    """A sidecar with rules and semantic layer, as shipped."""
    return start_sidecar()
