"""Ends a withheld stream in the API's own format: the finish reason of `block.style: refusal`."""

from __future__ import annotations

from sidecar.extraction.json_body import JsonValue
from sidecar.protocols import StreamState, protocol_of

_HEAD = ("id", "object", "created", "model", "system_fingerprint", "modelVersion", "responseId")
_BLOCK_ENDS = frozenset({"content_block_stop", "content-end", "tool-call-end", "contentBlockStop"})


class StreamTerminator:
    """Follows one stream and builds its last events.

    Call `observe_received` for every upstream event and `observe_sent` for those sent to the client.
    """

    def __init__(self, operation: str) -> None:
        self._make = protocol_of(operation).stream_endings.get(operation)
        self._state = StreamState()

    def observe_received(self, document: JsonValue) -> None:
        """Remember the fields of an upstream event that the last events must repeat."""
        if not isinstance(document, dict):
            return
        response = document.get("response")
        if not self._state.head:
            self._state.head = (
                response if isinstance(response, dict) else {k: document[k] for k in _HEAD if k in document}
            )

    def observe_sent(self, document: JsonValue) -> None:
        """Remember which choices and blocks are open at the client."""
        if not isinstance(document, dict):
            return
        choices = document.get("choices", document.get("candidates"))
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and isinstance(index := choice.get("index", 0), int):
                self._state.choices.add(index)
        kind, index = str(document.get("type", "")), document.get("index", document.get("contentBlockIndex"))
        if isinstance(index, int) and kind.startswith(("content", "tool-call")):
            (self._state.blocks.discard if kind in _BLOCK_ENDS else self._state.blocks.add)(index)
        if isinstance(number := document.get("sequence_number"), int):
            self._state.number = number + 1

    def events(self) -> list[bytes] | None:
        """The last events; None if the API has no such format."""
        return self._make(self._state) if self._make else None
