"""Settings: those in force that decide what passes, what is kept and who is told; secrets and free text never."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from sidecar.config import Settings
from sidecar.config.changes import displays, settings_changes
from sidecar.dashboard.guard import Route, Visit
from sidecar.dashboard.service_status import ServiceStatus

GROUPS = {
    "What is refused": (
        *("mode", "scan.threshold", "scan.sources", "pii", "untrusted", "responses", "policies"),
        *("layers.rules", "layers.semantic.enabled", "layers.llm_judge.url", "layers.llm_judge.mode"),
    ),
    "Actions in responses": ("actions",),
    "On failure": ("failure",),
    "What is kept": ("log", "admin.viewer_texts", "store.queue", "audit"),
    "Alerts": ("alerts",),
}
"""The groups of the page, and the settings or sections in each."""


@dataclass(frozen=True, slots=True)
class Row:
    """A setting as it is shown; `default`: that of the program, if it is another one."""

    name: str
    value: str
    default: str | None


class SettingsPage:
    """The page of settings."""

    def __init__(self, status: Callable[[], ServiceStatus]) -> None:
        self._status = status

    def routes(self) -> list[Route]:
        """The route of this page."""
        return [Route("GET", "/settings", self.show)]

    async def show(self, visit: Visit) -> web.Response:
        """The settings in force, by group, with what profiles change, and all others that are not as by default."""
        service = self._status()
        rows = rows_of(service.settings)
        grouped = {title: [row for row in rows if _is_in(row.name, names)] for title, names in GROUPS.items()}
        listed = ("profiles", *(name for names in GROUPS.values() for name in names))
        changed_rows = [row for row in rows if row.default is not None and not _is_in(row.name, listed)]
        values: dict[str, Any] = {"groups": grouped, "others": changed_rows, "service": service}
        values["profiles"] = profiles_of(service.settings)
        return visit.page("settings.html", **values)


def rows_of(settings: Settings) -> list[Row]:
    """All settings; the default of one that is not shown is not, either, and it is said to be set."""
    defaults = displays(Settings())
    rows = []
    for name, value in displays(settings).items():
        default = defaults.get(name, "none")
        rows.append(Row(name, value, default if default != value else None))
    return rows


def profiles_of(settings: Settings) -> dict[str, Sequence[str]]:
    """Of each profile what it changes: `threshold 0.6 (scan.threshold) to 0.9`."""
    without = settings.model_copy(update={"profiles": {}})
    changes = {
        name: settings_changes(without, settings.model_copy(update={"profiles": {name: profile}}))
        for name, profile in settings.profiles.items()
    }
    return {name: [line.removeprefix(f"profiles.{name}.") for line in lines] for name, lines in changes.items()}


def _is_in(name: str, names: Sequence[str]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in names)
