"""The health of what the sidecar needs outside its process: store, Redis, judge, upstream.

Each part knows why its latest access failed. A probe every `PROBE_INTERVAL` seconds finds trouble without traffic, and
its end. `sidecar_dependency_up` is computed at the scrape: 1 unless a part of that name has a problem, and no series
where none is in use, so that a Redis that nobody configured is not shown as one that works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from sidecar.observability.metrics import DEPENDENCIES, DEPENDENCY_UP
from sidecar.types import Dependency
from sidecar.util import logs

PROBE_INTERVAL = 5.0
LOGGED_BY_ITSELF = "upstream"
"""The dependency that logs its end and its return at once, with the host."""
_log = logs.get("dependencies")

Parts = Callable[[], Iterable[tuple[str, Dependency]]]


def dependencies(*parts: tuple[str, object]) -> tuple[tuple[str, Dependency], ...]:
    """Those of the named parts that depend on something outside this process."""
    return tuple((name, part) for name, part in parts if isinstance(part, Dependency))


class Health:
    """The health of the parts in use, each with one of the names in `DEPENDENCIES`."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._logged = parts, frozenset[str]()
        for name in DEPENDENCIES:
            DEPENDENCY_UP.labels(name).set_function(partial(self._up, name))
        DEPENDENCY_UP.in_use = self._in_use  # type: ignore[method-assign]  # there is one in a process

    def problems(self) -> list[str]:
        """What is wrong now, each problem once."""
        return list(dict.fromkeys(part.problem for _, part in self._parts() if part.problem))

    async def probe(self) -> None:
        """Probe one part after the other, and log what is new and what is over."""
        for _, part in list(self._parts()):
            await part.probe()
        self._note()

    def _note(self) -> None:
        lost = frozenset(name for name, part in self._parts() if part.problem and name != LOGGED_BY_ITSELF)
        for name, part in self._parts():
            if part.problem and name in lost - self._logged:
                _log.error("dependency_lost", dependency=name, reason=part.problem)
        for name in sorted(self._logged - lost):
            _log.info("dependency_back", dependency=name)
        self._logged = lost

    def _up(self, name: str) -> float:
        return 0.0 if any(part.problem for its_name, part in self._parts() if its_name == name) else 1.0

    def _in_use(self, name: str) -> bool:
        return any(its_name == name for its_name, _ in self._parts())
