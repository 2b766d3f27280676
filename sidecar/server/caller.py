"""Who asks, in the engine's words: the key of a request, with the threshold and the mode that it may have."""

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
"""Set by the gatekeeper once the key is found valid."""


def caller(request: web.Request, *, thorough: bool = False) -> Caller:
    """For the engine; `thorough`: every layer is to speak."""
    key, decision = request.get(API_KEY), request[DECISION_ID]
    if key is None:
        return Caller(thorough=thorough, decision=decision)
    return Caller(key.id, key.threshold, thorough, decision, _switches(key.rules) if key.rules else {})


@lru_cache
def _switches(rules: str) -> Mapping[str, RuleChange]:
    return parse_rule_changes(rules)


def monitors(request: web.Request, settings: Settings) -> bool:
    """Whether this request is forwarded whatever is found: by its key's own mode, else by the general one."""
    key = request.get(API_KEY)
    return ((key and key.mode) or settings.mode) == "monitor"
