"""Reloads while serving: watches the configuration's files and applies their content, or keeps the last good one.

Files are polled: notifications do not work over network file systems and bind mounts, and a Kubernetes volume changes
by swapping the link `..data` beside the files. A poll is a few `stat` calls in a thread. A changed file is read once it
is unchanged for one more poll, so that it is not read while it is being written.

`read` reads the settings, `swap` validates and applies them; either raises `SidecarError` with every problem, and then
nothing has changed. Between the two the state of files that the settings name for the first time is recorded, so that
no later change of them goes unnoticed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TypeVar

from pydantic import BaseModel

from sidecar.config import Settings
from sidecar.config.sources import ENV_PREFIX
from sidecar.errors import ProblemsError, SidecarError
from sidecar.observability.metrics import CHANGES_NOT_APPLIED, GENERATION, RELOADS
from sidecar.util import logs
from sidecar.util.tasks import Background

PAUSE = 0.25
"""Seconds between two polls."""
MAX_FILES = 1_000
"""Files of one folder that are watched."""
RESTART_ONLY = (
    *("listen", "admin", "store", "log", "audit", "telemetry", "alerts", "sinks", "drain"),
    *("limits.url", "limits.header_timeout", "limits.connections"),
    "gateway.header",
    *("auth.cache", "auth.stale_grace", "auth.pepper_file"),
)
"""Settings that change only with a restart: open sockets, databases and secrets."""

ModelT = TypeVar("ModelT", bound=BaseModel)
Mark = tuple[int, int, int]
Marks = dict[Path, Mark | None]
_log = logs.get("reload")


@dataclass(frozen=True, slots=True)
class State:
    """The state that `/ready` reports: how often the configuration was replaced, and why the last reload failed.

    `at`: when it was loaded, or the last attempt; `reason`: the whole reason of a rejection, which `/ready` keeps back.
    """

    generation: int = 1
    rejected: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)
    reason: str = field(default="", compare=False)


class Reloader:
    """Calls `read` and `swap` when a file of `files()` changed, or on `request`. One reload at a time."""

    def __init__(
        self,
        files: Callable[[], Iterable[Path]],
        swap: Callable[[], Awaitable[None]],
        read: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.state = State()
        self._files, self._swap, self._read = files, swap, read
        self._marks: Marks = {}
        self._requested = asyncio.Event()
        self._background = Background()

    async def start(self) -> None:
        """Record the current state of the files, and watch them until `close`."""
        GENERATION.set(self.state.generation)
        self._marks = await self._read_marks()
        self._background.repeat("reload", self._poll, 0.0)

    async def close(self) -> None:
        """Stop watching; a reload in progress is cancelled."""
        await self._background.close()

    def request(self) -> None:
        """Reload at once, changed or not (SIGHUP)."""
        self._requested.set()

    async def _poll(self) -> None:
        try:
            async with asyncio.timeout(PAUSE):
                await self._requested.wait()
        except TimeoutError:
            pass
        marks = await self._read_marks()
        if self._requested.is_set() or (_changed(self._marks, marks) and marks == await self._read_marks_again()):
            self._requested.clear()
            self._marks = marks
            await self._reload()

    async def _read_marks_again(self) -> Marks:
        await asyncio.sleep(PAUSE / 2)
        return await self._read_marks()

    async def _read_marks(self) -> Marks:
        return await asyncio.to_thread(_marks, list(self._files()))

    async def _reload(self) -> None:
        started_at = monotonic()
        try:
            if self._read is not None:
                await self._read()
            self._marks = {**await self._read_marks(), **self._marks}
            await self._swap()
        except SidecarError as error:
            self._reject(str(error), len(error.problems) if isinstance(error, ProblemsError) else 1)
        except Exception as error:  # noqa: BLE001 - any error keeps the last good configuration in service
            self._reject(type(error).__name__, 1)
        else:
            self.state = State(self.state.generation + 1)
            GENERATION.set(self.state.generation)
            CHANGES_NOT_APPLIED.labels("rejected").set(0)
            RELOADS.labels("done").inc()
            _log.info("reload_done", generation=self.state.generation, seconds=round(monotonic() - started_at, 3))

    def _reject(self, reason: str, problems: int) -> None:
        """The reasons are for the log and for admins: `/ready` is served without authentication."""
        rejected = f"the last reload was rejected: {problems} problem(s), see the log"
        self.state = State(self.state.generation, rejected, reason=reason)
        CHANGES_NOT_APPLIED.labels("rejected").set(1)
        RELOADS.labels("rejected").inc()
        _log.error("reload_rejected", generation=self.state.generation, reason=" ".join(reason.split()))


def watched_files(settings: Settings, config_file: Path | None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The settings file, every file or folder that a setting names, and those named by environment variables."""
    from_environment = [
        Path(value) for name, value in environ.items() if name.startswith(ENV_PREFIX) and name.endswith("_FILE")
    ]
    return [*([config_file] if config_file else []), *_paths(settings), *from_environment]


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
    """Inode, size and modification time of each file: they change when it is written, replaced or relinked."""
    return {file: _mark(file) for path in paths for file in _files_in(path)}


def _changed(before: Marks, after: Marks) -> bool:
    """Whether a file in both changed. An added or removed file changes its folder instead."""
    return any(before[path] != after[path] for path in before.keys() & after.keys())


def _files_in(path: Path) -> Iterable[Path]:
    try:
        return [path, *sorted(path.iterdir())[:MAX_FILES]] if path.is_dir() else [path]
    except OSError:
        return [path]


def _mark(path: Path) -> Mark | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def reloadable(running: Settings, read: Settings) -> tuple[Settings, list[str]]:
    """The settings to apply, with restart-only ones as they are now; and the names of those that need a restart."""
    waiting = [name for name in RESTART_ONLY if _at(running, name) != _at(read, name)]
    for name in RESTART_ONLY:
        read = _with_value(read, name.split("."), _at(running, name))
    return read, waiting


def _at(settings: BaseModel, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _with_value(model: ModelT, names: list[str], value: object) -> ModelT:
    below = _with_value(getattr(model, names[0]), names[1:], value) if names[1:] else value
    return model.model_copy(update={names[0]: below})
