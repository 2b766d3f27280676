"""Ends a withheld stream in the API's own format: the finish reason of `block.style: refusal`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sidecar.extraction.json_body import JsonValue
from sidecar.util import json

Json = dict[str, Any]
_HEAD = ("id", "object", "created", "model", "system_fingerprint")


class StreamTerminator:
    """Follows one stream and builds its last events.

    Call `observe_received` for every upstream event and `observe_sent` for those sent to the client.
    """

    def __init__(self, operation: str) -> None:
        self._make = _MAKERS.get(operation)
        self._head: Json = {}
        self._choices: set[int] = set()
        self._blocks: set[int] = set()
        self._number = 0

    def observe_received(self, document: JsonValue) -> None:
        """Remember the fields of an upstream event that the last events must repeat."""
        if not isinstance(document, dict):
            return
        response = document.get("response")
        if not self._head:
            self._head = response if isinstance(response, dict) else {k: document[k] for k in _HEAD if k in document}

    def observe_sent(self, document: JsonValue) -> None:
        """Remember which choices and blocks are open at the client."""
        if not isinstance(document, dict):
            return
        choices = document.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and isinstance(index := choice.get("index"), int):
                self._choices.add(index)
        if isinstance(index := document.get("index"), int):
            update = self._blocks.discard if document.get("type") == "content_block_stop" else self._blocks.add
            update(index)
        if isinstance(number := document.get("sequence_number"), int):
            self._number = number + 1

    def events(self) -> list[bytes] | None:
        """The last events; None if the API has no such format."""
        return self._make(self) if self._make else None

    def _chat(self) -> list[bytes]:
        return self._finish_choices({"delta": {}})

    def _completion(self) -> list[bytes]:
        return self._finish_choices({"text": ""})

    def _finish_choices(self, empty_delta: Json) -> list[bytes]:
        ended = {**empty_delta, "logprobs": None, "finish_reason": "content_filter"}
        choices = [{"index": index, **ended} for index in sorted(self._choices or {0})]
        return [b"data: " + json.dumps(self._head | {"choices": choices}) + b"\n\n", b"data: [DONE]\n\n"]

    def _response(self) -> list[bytes]:
        ending: Json = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}
        return [_event("response.incomplete", {"response": self._head | ending, "sequence_number": self._number})]

    def _message(self) -> list[bytes]:
        ended = {"stop_reason": "refusal", "stop_sequence": None}
        return [
            *(_event("content_block_stop", {"index": index}) for index in sorted(self._blocks)),
            _event("message_delta", {"delta": ended, "usage": {"output_tokens": 0}}),
            _event("message_stop", {}),
        ]


def _event(name: str, fields: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: ".encode() + json.dumps({"type": name, **fields}) + b"\n\n"


_MAKERS: dict[str, Callable[[StreamTerminator], list[bytes]]] = {
    "/chat/completions": StreamTerminator._chat,  # noqa: SLF001 - its own
    "/completions": StreamTerminator._completion,  # noqa: SLF001
    "/responses": StreamTerminator._response,  # noqa: SLF001
    "/messages": StreamTerminator._message,  # noqa: SLF001
}
