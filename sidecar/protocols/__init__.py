"""The APIs that the inline proxy serves, one module each; a further one is added here and nowhere else."""

from __future__ import annotations

from sidecar.protocols.anthropic import ANTHROPIC
from sidecar.protocols.bedrock import BEDROCK
from sidecar.protocols.cohere import COHERE
from sidecar.protocols.gemini import GEMINI
from sidecar.protocols.openai import OPENAI
from sidecar.protocols.protocol import Protocol, RouteKind, Shape, StreamState, data

__all__ = ["BEDROCK", "PROTOCOLS", "Protocol", "RouteKind", "Shape", "StreamState", "data", "protocol_of"]
PROTOCOLS = {each.name: each for each in (OPENAI, ANTHROPIC, GEMINI, BEDROCK, COHERE)}
"""By name, which is the dialect of a route."""
_BY_OPERATION = {name: each for each in PROTOCOLS.values() for names in each.routes.values() for name in names.split()}


def protocol_of(operation: str) -> Protocol:
    """The protocol that has this operation; OpenAI's for an operator's own route."""
    return _BY_OPERATION.get(operation, OPENAI)
