"""The tool calls in a model's response: of a complete body, and put together from the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.actions.conversation import Json, ToolCall, calls_of, objects, parsed_call


def response_calls(document: Json) -> list[ToolCall]:
    """The calls in a complete response, in an event that holds one, or in the list of events that Google sends."""
    if isinstance(document, list):
        stream = StreamCalls()
        calls = [call for event in document for call in stream.observe(event)]
        return calls + stream.finish()
    return list(_calls(document, "")) if isinstance(document, dict) else []


def _calls(document: dict[str, Json], path: str) -> Iterator[ToolCall]:
    for number, choice in enumerate(objects(document.get("choices"))):
        yield from calls_of(choice.get("message"), f"{path}choices.{number}.message")
    for number, item in enumerate(objects(document.get("output"))):
        yield from calls_of(item, f"{path}output.{number}")
    for number, candidate in enumerate(objects(document.get("candidates"))):
        yield from calls_of(candidate.get("content"), f"{path}candidates.{number}.content")
    if isinstance(output := document.get("output"), dict):
        yield from calls_of(output.get("message"), f"{path}output.message")
    yield from calls_of(document.get("message"), f"{path}message")
    if document.get("role") == "assistant" or document.get("type") == "message":
        yield from calls_of({"content": document.get("content")}, path.rstrip(".") or "message")
    required = document.get("required_action")
    if isinstance(required, dict):
        yield from calls_of(required.get("submit_tool_outputs"), f"{path}required_action.submit_tool_outputs")
    if isinstance(inner := document.get("response"), dict):
        yield from _calls(inner, f"{path}response.")


@dataclass(slots=True)
class _OpenCall:
    path: str
    name: str = ""
    arguments: str = ""
    value: Json = None
    id: str = ""

    def finished(self) -> ToolCall:
        return parsed_call(self.name, self.arguments or self.value, self.path)


class StreamCalls:
    """Puts the calls of one stream together. `observe` returns those that an event completes."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenCall] = {}
        self._replaced = 0
        self._in_parts = False

    @property
    def is_open(self) -> bool:
        """Whether a call has begun and not ended."""
        return bool(self._open)

    def observe(self, document: Json) -> list[ToolCall]:
        """Take one event in; returns the calls that it completes."""
        if not isinstance(document, dict):
            return []
        kind = str(document.get("type") or "")
        if "choices" in document:
            return [call for choice in objects(document["choices"]) for call in self._choice(choice)]
        readers = {
            "response.": self._response_event,
            "content_block_": self._block_event,
            "tool-call-": self._cohere_event,
            "contentBlock": self._bedrock_event,
        }
        for beginning, read in readers.items():
            if kind.startswith(beginning):
                return read(kind, document)
        partial = self._partial_calls(document)
        return partial + [call for call in response_calls(document) if call.arguments is not None or not self._in_parts]

    def finish(self) -> list[ToolCall]:
        """The calls that are still open at the end."""
        calls = [call.finished() for call in self._open.values()]
        self._open.clear()
        return calls

    def _choice(self, choice: dict[str, Json]) -> list[ToolCall]:
        index, delta = choice.get("index", 0), choice.get("delta")
        prefix = f"choices.{index}."
        if isinstance(delta, dict):
            for number, part in enumerate(objects(delta.get("tool_calls"))):
                place = f"{prefix}delta.tool_calls.{part.get('index', number)}"
                self._append(place, part.get("function") or part.get("custom"), part.get("id"))
            self._append(f"{prefix}delta.function_call", delta.get("function_call"))
        if choice.get("finish_reason") is None:
            return list(calls_of(choice.get("message"), f"{prefix}message"))
        return self._close([place for place in self._open if place.startswith(prefix)])

    def _append(self, place: str, part: Json, call_id: Json = None) -> None:
        if not isinstance(part, dict):
            return
        call = self._opened(place)
        if isinstance(call_id, str) and call_id:
            if call.id not in {"", call_id} and part.get("name"):  # another call at the same index
                self._replaced += 1
                self._open[f"{place}.{self._replaced}"] = self._open.pop(place)
                call = self._opened(place)
            call.id = call_id
        call.name += part["name"] if isinstance(part.get("name"), str) else ""
        for name in ("arguments", "input"):
            call.arguments += part[name] if isinstance(part.get(name), str) else ""

    def _opened(self, place: str) -> _OpenCall:
        return self._open.setdefault(place, _OpenCall(place))

    def _response_event(self, kind: str, document: dict[str, Json]) -> list[ToolCall]:
        place = f"output.{document.get('output_index', 0)}"
        item = document.get("item")
        if kind == "response.output_item.added" and isinstance(item, dict):
            if str(item.get("type") or "").endswith("_call"):
                self._opened(place).name = str(item.get("name") or item.get("type"))
        elif kind in {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}:
            self._opened(place).arguments += str(document.get("delta") or "")
        elif kind == "response.output_item.done":
            self._open.pop(place, None)
            return list(calls_of(item, place))
        elif isinstance(document.get("response"), dict) and kind not in {"response.created", "response.in_progress"}:
            return self.finish() + response_calls(document)
        return []

    def _block_event(self, kind: str, document: dict[str, Json]) -> list[ToolCall]:
        place = f"content.{document.get('index', 0)}"
        block, delta = document.get("content_block"), document.get("delta")
        if kind == "content_block_start" and isinstance(block, dict):
            if str(block.get("type") or "").endswith("tool_use"):
                call = self._opened(place)
                call.name, call.value = str(block.get("name") or ""), block.get("input")
        elif kind == "content_block_delta" and isinstance(delta, dict) and place in self._open:
            self._open[place].arguments += str(delta.get("partial_json") or "")
        elif kind == "content_block_stop":
            return self._close([place])
        return []

    def _cohere_event(self, kind: str, document: dict[str, Json]) -> list[ToolCall]:
        place, delta = f"message.tool_calls.{document.get('index', 0)}", document.get("delta")
        message = delta.get("message") if isinstance(delta, dict) else None
        call = message.get("tool_calls") if isinstance(message, dict) else None
        if isinstance(call, dict):
            self._append(place, call.get("function"), call.get("id"))
        return self._close([place]) if kind == "tool-call-end" else []

    def _bedrock_event(self, kind: str, document: dict[str, Json]) -> list[ToolCall]:
        place = f"output.message.content.{document.get('contentBlockIndex', 0)}"
        part = document.get("start") if kind == "contentBlockStart" else document.get("delta")
        if isinstance(part, dict) and isinstance(call := part.get("toolUse"), dict):
            self._append(place, call)
        return self._close([place]) if kind == "contentBlockStop" else []

    def _partial_calls(self, document: dict[str, Json]) -> list[ToolCall]:
        """Google's calls whose arguments arrive in pieces: values by path, until one says that none follows."""
        ended: list[ToolCall] = []
        for number, candidate in enumerate(objects(document.get("candidates"))):
            place, content = f"candidates.{number}.content", candidate.get("content")
            for part in objects(content.get("parts")) if isinstance(content, dict) else ():
                call = part.get("functionCall")
                if not isinstance(call, dict) or not ("partialArgs" in call or place in self._open):
                    continue
                opened, self._in_parts = self._opened(place), True
                opened.name += str(call.get("name") or "")
                opened.value = opened.value if isinstance(opened.value, dict) else {}
                for piece in objects(call.get("partialArgs")):
                    _extend(opened.value, piece)
                if not call.get("willContinue"):
                    ended += self._close([place])
        return ended

    def _close(self, places: list[str]) -> list[ToolCall]:
        return [call.finished() for place in places if (call := self._open.pop(place, None))]


def _extend(values: dict[str, Json], piece: dict[str, Json]) -> None:
    """Add a piece of Google's arguments: a text goes on, any other value is whole."""
    path = str(piece.get("jsonPath"))
    value = next((piece[name] for name in piece if name.endswith("Value")), "")
    known = values.get(path, "")
    values[path] = known + value if isinstance(known, str) and isinstance(value, str) else value
