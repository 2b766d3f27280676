"""The caller context of a request for the engine: its key, with the key's threshold, mode and rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from aiohttp import web

from sidecar.auth.api_keys import ApiKey
from sidecar.config import Settings
from sidecar.scan.engine import Caller
from sidecar.server.responses import DECISION_ID
from sidecar.util.units import RuleChange, parse_rule_changes

API_KEY = web.RequestKey("api_key", ApiKey)
"""Set by the gatekeeper after validating the key."""


def caller_context(request: web.Request, *, thorough: bool = False) -> Caller:
    """The caller context for the engine; `thorough`: run every layer."""
    key, decision = request.get(API_KEY), request[DECISION_ID]
    if key is None:
        return Caller(thorough=thorough, decision=decision)
    return Caller(key.id, key.threshold, thorough, decision, _rule_changes(key.rules) if key.rules else {})


@lru_cache
def _rule_changes(rules: str) -> Mapping[str, RuleChange]:
    return parse_rule_changes(rules)


def is_monitored(request: web.Request, settings: Settings) -> bool:
    """Whether this request is only monitored, never blocked: by its key's mode, else the general mode."""
    key = request.get(API_KEY)
    return ((key and key.mode) or settings.mode) == "monitor"
