"""What the sidecar is doing now, for the first page: mode, upstream, layers, health, and the last reload."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sidecar import __version__
from sidecar.config import Settings
from sidecar.observability.alert_history import SentAlert
from sidecar.types import LayerName

State = Literal["ok", "degraded", "not ready"]


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The configuration in force and its health.

    `layers`: those that run, and whether they decide; `problems` forbid traffic, `degraded` does not; `loaded_at`: the
    last load or its attempt; `rejected`: why it failed; `waiting`: changed settings that need a restart;
    `alerts`: the newest alerts to the webhook, the newest first.
    """

    settings: Settings
    layers: Mapping[LayerName, bool]
    revision: str
    rules: int
    problems: tuple[str, ...]
    degraded: tuple[str, ...]
    generation: int
    loaded_at: datetime
    rejected: str = ""
    waiting: tuple[str, ...] = ()
    alerts: tuple[SentAlert, ...] = ()

    @property
    def state(self) -> State:
        """As in `/ready`."""
        return "not ready" if self.problems else "degraded" if self.degraded else "ok"

    @property
    def version(self) -> str:
        """The version of the program."""
        return __version__

    @property
    def upstreams(self) -> list[tuple[str, str]]:
        """For whom, and where to: the upstream of all models, and those of models with their own."""
        urls = {name: model.merged_with(self.settings.upstream).url for name, model in self.settings.models.items()}
        default = self.settings.upstream.url
        return [("all models", default), *((name, url) for name, url in urls.items() if url != default)]

    @property
    def layer_states(self) -> list[tuple[LayerName, str]]:
        """Each layer, and whether it runs: `on`, `observes`, `missing` (switched on, and not loaded) or `off`."""
        return [(layer, self._layer_state(layer)) for layer in LayerName]

    def _layer_state(self, layer: LayerName) -> str:
        if layer in self.layers:
            return "on" if self.layers[layer] else "observes"
        return "missing" if self.settings.is_enabled(layer) else "off"

    def curl(self, route: str, body: str) -> str:
        """A request to the scan API as a command line. `route`: below `/api/v1/`; `body`: JSON."""
        listen = self.settings.listen
        host = "127.0.0.1" if listen.host in {"0.0.0.0", "::"} else listen.host  # noqa: S104
        headers = "-H \"X-API-Key: $SIDECAR_API_KEY\" -H 'Content-Type: application/json'"
        return f"curl -s http://{host}:{listen.port}/api/v1/{route} {headers} -d {shlex.quote(body)}"
