"""The scan use case without HTTP. Every entry point that scans requests does it through one `ScanService`.

An entry point turns its request into a `ScanInput` and a `ScanOutcome` into its own response. How `mode` applies to a
verdict, and what is recorded, is the same for all of them and decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter

from sidecar.auth.api_keys import ApiKey
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.decision_log.outline import outline
from sidecar.errors import Unavailable
from sidecar.scan.engine import Caller, Engine
from sidecar.scan.personal_data import apply_pii_setting
from sidecar.types import Action, Decision, LayerName, ScanRequest, Segment, Verdict
from sidecar.util.units import parse_rule_changes

NOTHING_SCANNED = Verdict(0.0, Action.ALLOW, (), 0, LayerName.RULES)
"""The verdict on a request without texts to scan."""
CACHED_CALLERS = 1_024
"""Keys and addresses whose terms are kept from one scan to the next."""
_text_of = attrgetter("text")


@dataclass(frozen=True, slots=True)
class ScanContext:
    """Client and route of a scan. `decision`: its id.

    `entrypoint`: `inline`, `api`, `compat`, `mcp`, `cli`, or `answer` for a response of the model.
    `address`: what limits count of a client without a key; `client`: the address of any client.
    """

    decision: str
    entrypoint: str
    route: str
    key: ApiKey | None = None
    address: str = ""
    client: str = ""


NO_TOOLS: Mapping[str, str] = {}
COMMAND = ScanContext("", "cli", "")
"""The context of a scan by a command."""


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """A verdict and what follows from it.

    `action`: `allow`, `block`, or `monitor` for a request that enforcement would have refused. `unscanned`: kinds of
    content that reach the model unscanned, named as in `failure`. `enforce`: under `mode: monitor` the action that
    enforcement would have taken (`allow`, `block`, or the cause of an error).
    """

    verdict: Verdict = NOTHING_SCANNED
    action: str = "allow"
    unscanned: str | None = None
    enforce: str | None = None

    @property
    def blocked(self) -> bool:
        """Whether the request is refused."""
        return self.action == "block"

    @property
    def failure(self) -> str | None:
        """The cause, if the request is refused because it could not be scanned."""
        return self.verdict.failure if self.action == "block" else None


class ScanService:
    """Scans, decides and records under given settings. Without a log, as in a command, nothing is recorded."""

    def __init__(self, engine: Engine, settings: Settings, decision_log: DecisionLog | None = None) -> None:
        self._engine, self._log, self._settings = engine, decision_log, settings

    def admit(self) -> None:
        """Raise `Unavailable` while decisions cannot be recorded and have to be (`log.required`)."""
        if self._log is not None and not self._log.healthy:
            raise Unavailable("The scan log cannot be written (log.required).", retry_after=5)

    def monitors(self, key: ApiKey | None) -> bool:
        """Whether nothing is refused: by the mode of the key, else by the general one."""
        return ((key and key.mode) or self._settings.mode) == "monitor"

    async def scan(self, request: ScanRequest, context: ScanContext = COMMAND, *, thorough: bool = False) -> Verdict:
        """The verdict. `thorough`: every layer reports, although the verdict is settled."""
        if not request.segments:
            return NOTHING_SCANNED
        caller = _caller(context.key, context.address, thorough=thorough)
        verdict = await self._engine.scan(request, caller, context.decision)
        key_threshold = context.key.threshold if context.key else None
        threshold = self._settings.scan.threshold if key_threshold is None else key_threshold
        return apply_pii_setting(verdict, request.segments, self._settings.pii, threshold)

    def decide(
        self, verdict: Verdict, unscanned: Sequence[str] = (), *, monitored: bool, closed: str | None = None
    ) -> ScanOutcome:
        """The outcome. `unscanned`: kinds of content that no layer reads and the policy allows.

        `closed`: under monitor, the first of them that would have been refused. For an outcome with a `failure` the
        caller must respond with an error.
        """
        blocked = verdict.action is Action.BLOCK
        passing = verdict.failure or ",".join(unscanned) or None
        if not monitored:
            return ScanOutcome(verdict, "block", None) if blocked else ScanOutcome(verdict, "allow", passing)
        enforce = closed or ((verdict.failure or "block") if blocked else "allow")
        return ScanOutcome(verdict, "allow" if enforce == "allow" else "monitor", passing, enforce)

    def record(
        self,
        context: ScanContext,
        outcome: ScanOutcome,
        status: int,
        segments: Sequence[Segment] = (),
        model: str | None = None,
        tools: Mapping[str, str] = NO_TOOLS,
        replaced: int = 0,
    ) -> str | None:
        """Record the decision from the event loop, in order: no response waits for its record.

        `tools`: those whose results the segments are, by path. `replaced`: values that placeholders stand for.
        Returns the receipt, if decisions have any.
        """
        if self._log is None:
            return None
        text = "\n".join(map(_text_of, segments))
        kept = self._log.texts_for_log(segments, outcome.verdict)
        described = kept or outcome.action != "allow" or outcome.verdict.threats
        decision = Decision(
            id=context.decision,
            at=datetime.now(UTC),
            entrypoint=context.entrypoint,
            route=context.route,
            verdict=outcome.verdict,
            action=outcome.action,
            status=status,
            key_id=context.key.id if context.key else None,
            model=model,
            length=len(text),
            segments=len(segments),
            digest=self._log.digest(text),
            unscanned=outcome.unscanned,
            text="\n".join(kept),
            client=self._log.client_for_log(context.client),
            outline=outline(segments, outcome.verdict, tools, kept) if described else (),
            replaced=replaced,
        )
        asyncio.get_running_loop().call_soon(self._log.record, decision)
        return self._log.receipt(decision) if self._settings.audit.receipts else None


@lru_cache(CACHED_CALLERS)
def _caller(key: ApiKey | None, address: str, *, thorough: bool) -> Caller:
    if key is None:
        return Caller(thorough=thorough, client=address)
    changes = parse_rule_changes(key.rules) if key.rules else {}
    return Caller(key.id, key.threshold, thorough, key.id, changes, key.former_ids)
