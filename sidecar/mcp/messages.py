"""JSON-RPC messages: parsing, writing, and the request that a response answers."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sidecar.errors import BodyError
from sidecar.extraction import json_body
from sidecar.storage import MAX_NAME
from sidecar.util import json

Message = dict[str, Any]
MAX_PENDING = 10_000
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\\x00-\x1f]){0,200}"|-?\d{1,18})\s*[,}]')
_ID_BYTES = 4096
_DIGEST = 64
MAX_EXACT = 2**53
"""From here on not every integer has a float."""
_NUMBER = re.compile(r"-?[0-9]{1,18}")
MAX_ID = 256
"""Characters of an id: one that is longer is malformed, so that what is kept of a request is small."""
_MEMBERS = frozenset({"error", "id", "jsonrpc", "method", "params", "result"})


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
    for message in messages:
        _check(message)
    return Packet(messages, isinstance(value, list))


def _check(message: Message) -> None:
    """Raise `BodyError` for a message that receivers could take for another kind, or for another's response."""
    if any(name not in _MEMBERS and name.lower() in _MEMBERS for name in message):
        raise BodyError("malformed", "The members of a message must be in lower case.")
    method, message_id = message.get("method", "-"), message.get("id")
    if not isinstance(method, str) or not method:
        raise BodyError("malformed", "The method of a message must be a string that is not empty.")
    if "method" in message and ("result" in message or "error" in message):
        raise BodyError("malformed", "A message must not have both a method and a result or an error.")
    is_id = message_id is None or isinstance(message_id, str | int | float)
    if not is_id or isinstance(message_id, bool) or len(str(message_id)) > MAX_ID:
        raise BodyError("malformed", f"The id of a message must be a number or a string of up to {MAX_ID} characters.")


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
            with suppress(json.DecodeError):  # 007, or bytes that are not UTF-8
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
            shorten(message["method"]),
            shorten(tool) if isinstance(tool, str) else "",
            shorten(cursor) if isinstance(cursor, str) else None,
        )


def shorten(text: str) -> str:
    """The text itself, or its beginning and its digest if it is longer than the store keeps a name."""
    if len(text) <= MAX_NAME:
        return text
    return f"{text[: MAX_NAME - _DIGEST - 1]} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


@dataclass(slots=True)
class Pending:
    """The requests of one side that wait for a response; the oldest are forgotten, since none may ever come."""

    requests: OrderedDict[bytes, Request] = field(default_factory=OrderedDict)

    def add(self, message: Message) -> Request:
        """Remember a request; returns what is remembered of it."""
        request = self.requests[_key(message["id"])] = Request.of(message)
        if len(self.requests) > MAX_PENDING:
            self.requests.popitem(last=False)
        return request

    def take(self, message_id: object) -> Request | None:
        """The request of a response, which is then answered. Some clients take the ids 1 and "1" for each other."""
        request = self.requests.pop(_key(message_id), None)
        return request if request is not None else self.requests.pop(_key(_other_form(message_id)), None)


def _key(message_id: object) -> bytes:
    if isinstance(message_id, float) and message_id.is_integer() and abs(message_id) < MAX_EXACT:
        message_id = int(message_id)
    return json.dumps(message_id)


def _other_form(message_id: object) -> object:
    if isinstance(message_id, str):
        return int(message_id) if _NUMBER.fullmatch(message_id) else None
    return None if message_id is None else _key(message_id).decode()
