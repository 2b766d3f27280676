"""Reloads while serving: watches the files behind the configuration, and swaps what they say or keeps the last good.

Files are looked at, not subscribed to: notifications do not come over network file systems and bind mounts, and a
Kubernetes volume changes by swapping the link `..data` beside the files. A look is a few `stat` calls in a thread.
What changed is read once it has kept still for one look, so that a file is not read while it is being written.

What is read is judged by `swap`, which raises `SidecarError` with every problem; then nothing has changed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

from pydantic import BaseModel

from sidecar.config import Settings
from sidecar.config.sources import ENV_PREFIX
from sidecar.errors import ProblemsError, SidecarError
from sidecar.observability.metrics import GENERATION, RELOADS
from sidecar.util import logs
from sidecar.util.tasks import Background

PAUSE = 0.25
"""Seconds between two looks at the files."""
MOST_FILES = 1_000
"""Files of one folder that are looked at."""
FIXED = (
    *("listen", "admin", "store", "log", "telemetry", "drain"),
    *("limits.url", "limits.header_timeout", "limits.connections"),
    *("auth.cache", "auth.stale_grace", "auth.pepper_file"),
)
"""What stays as it was until the next start: sockets, databases and secrets that are open already."""

M = TypeVar("M", bound=BaseModel)
Mark = tuple[int, int, int]
Marks = dict[Path, Mark | None]
_log = logs.get("reload")


@dataclass(frozen=True, slots=True)
class State:
    """What `/ready` says: how often the configuration was replaced, and why the last try failed, if it did."""

    generation: int = 1
    rejected: str | None = None


class Reloader:
    """Calls `swap` when a file of `files()` changed, or on `ask`. One reload at a time."""

    def __init__(self, files: Callable[[], Iterable[Path]], swap: Callable[[], Awaitable[None]]) -> None:
        self.state = State()
        self._files, self._swap = files, swap
        self._known: Marks = {}
        self._asked = asyncio.Event()
        self._background = Background()

    async def start(self) -> None:
        """Remember how the files are now, and watch them until `close`."""
        GENERATION.set(self.state.generation)
        self._known = await self._look()
        self._background.repeat("reload", self._turn, 0.0)

    async def close(self) -> None:
        """Watch no longer; a reload that has begun is given up."""
        await self._background.close()

    def ask(self) -> None:
        """Reload at once, changed or not (SIGHUP)."""
        self._asked.set()

    async def _turn(self) -> None:
        try:
            async with asyncio.timeout(PAUSE):
                await self._asked.wait()
        except TimeoutError:
            pass
        marks = await self._look()
        if self._asked.is_set() or (_changed(self._known, marks) and marks == await self._later()):
            self._asked.clear()
            self._known = marks
            await self._reload()

    async def _later(self) -> Marks:
        await asyncio.sleep(PAUSE / 2)
        return await self._look()

    async def _look(self) -> Marks:
        return await asyncio.to_thread(_marks, list(self._files()))

    async def _reload(self) -> None:
        begun = monotonic()
        try:
            await self._swap()
        except SidecarError as error:
            self._reject(str(error), len(error.problems) if isinstance(error, ProblemsError) else 1)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with what was read, the last good one serves
            self._reject(type(error).__name__, 1)
        else:
            self.state = State(self.state.generation + 1)
            GENERATION.set(self.state.generation)
            RELOADS.labels("done").inc()
            _log.info("reload_done", generation=self.state.generation, seconds=round(monotonic() - begun, 3))

    def _reject(self, why: str, problems: int) -> None:
        """The reasons go to the log alone: `/ready` asks nobody for a key."""
        self.state = State(self.state.generation, f"the last reload was rejected: {problems} problem(s), see the log")
        RELOADS.labels("rejected").inc()
        _log.error("reload_rejected", generation=self.state.generation, reason=why)


def files_behind(settings: Settings, config_file: Path | None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The file of settings, every file or folder that a setting names, and those that the environment does."""
    named = [Path(value) for name, value in environ.items() if name.startswith(ENV_PREFIX) and name.endswith("_FILE")]
    return [*([config_file] if config_file else []), *_paths(settings), *named]


def _paths(value: object) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _paths(getattr(value, name))
    elif isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _paths(item)


def _marks(paths: Iterable[Path]) -> Marks:
    """What changes when a file is written, replaced, or reached through a link that now leads elsewhere."""
    return {file: _mark(file) for path in paths for file in _inside(path)}


def _changed(before: Marks, after: Marks) -> bool:
    """A file that came or went shows in its folder; what is new on the list has just been read."""
    return any(before[path] != after[path] for path in before.keys() & after.keys())


def _inside(path: Path) -> Iterable[Path]:
    try:
        return [path, *sorted(path.iterdir())[:MOST_FILES]] if path.is_dir() else [path]
    except OSError:
        return [path]


def _mark(path: Path) -> Mark | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def settled(running: Settings, read: Settings) -> tuple[Settings, list[str]]:
    """What was read, with what cannot change while running as it is; and the names of what waits for a restart."""
    waiting = [name for name in FIXED if _at(running, name) != _at(read, name)]
    for name in FIXED:
        read = _put(read, name.split("."), _at(running, name))
    return read, waiting


def _at(settings: BaseModel, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _put(model: M, names: list[str], value: object) -> M:
    below = _put(getattr(model, names[0]), names[1:], value) if names[1:] else value
    return model.model_copy(update={names[0]: below})
