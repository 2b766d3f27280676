"""JSON-RPC messages: parsing, writing, and the request that a response answers."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from sidecar.errors import BodyError
from sidecar.extraction import json_body
from sidecar.util import json

Message = dict[str, Any]
MAX_PENDING = 10_000
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\\x00-\x1f]){0,200}"|-?\d{1,18})\s*[,}]')
_ID_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Packet:
    """The messages of one line, body or event: one, or a batch."""

    messages: tuple[Message, ...]
    is_batch: bool


def parse(raw: bytes, *, depth: int) -> Packet:
    """Parse the messages. Raises `BodyError` (malformed) for what is no JSON-RPC."""
    value = json_body.parse(raw, depth=depth, client_named=True)
    items = value if isinstance(value, list) else [value]
    messages = tuple(item for item in items if isinstance(item, dict))
    if not items or len(messages) != len(items):
        raise BodyError("malformed", "A message must be a JSON object.")
    return Packet(messages, isinstance(value, list))


def is_request(message: Message) -> bool:
    """Whether it expects a response."""
    return "method" in message and message.get("id") is not None


def is_response(message: Message) -> bool:
    """Whether it answers a request."""
    return "method" not in message and "id" in message


def encode(messages: list[Message], *, is_batch: bool) -> bytes | None:
    """The messages as bytes; None if there is none."""
    if not messages:
        return None
    return json.dumps(messages if is_batch else messages[0], json.LARGE)


def find_id(raw: bytes) -> object:
    """The id of a message that could not be parsed, from its beginning or its end; None if it is not found."""
    for part in (raw[:_ID_BYTES], raw[-_ID_BYTES:]):
        if match := _ID.search(part):
            return json.loads(match[1])
    return None


@dataclass(frozen=True, slots=True)
class Request:
    """What is remembered of a request until its response. `cursor`: the page of a list."""

    method: str
    tool: str = ""
    cursor: str | None = None

    @classmethod
    def of(cls, message: Message) -> Request:
        """Of a request."""
        params = message.get("params")
        fields = params if isinstance(params, dict) else {}
        tool, cursor = fields.get("name"), fields.get("cursor")
        return cls(
            str(message["method"]), tool if isinstance(tool, str) else "", cursor if isinstance(cursor, str) else None
        )


@dataclass(slots=True)
class Pending:
    """The requests of one side that wait for a response; the oldest are forgotten, since none may ever come."""

    requests: OrderedDict[bytes, Request] = field(default_factory=OrderedDict)

    def add(self, message: Message) -> None:
        """Remember a request."""
        self.requests[json.dumps(message["id"])] = Request.of(message)
        if len(self.requests) > MAX_PENDING:
            self.requests.popitem(last=False)

    def take(self, message_id: object) -> Request | None:
        """The request of a response, which is then answered."""
        return self.requests.pop(json.dumps(message_id), None)
