"""The sample of harmless traffic as labelled rows: `python -m benchmarks.traffic_sample > build/traffic.jsonl`.

The conversations are in `tests/data/traffic/*.yaml`: turns by role, the sets of tools (`tools.txt`), and for long files
the kind and size of a generated text. Here they become request bodies in five dialects, as clients send them. All of it
was written for this project.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from benchmarks import traffic_bulk

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "traffic"
MODEL = "gpt-4o-mini"
Object = dict[str, Any]


def rows() -> Iterator[Object]:
    """All conversations as rows of `sidecar eval`."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for talk in yaml.safe_load(path.read_text("utf-8")):
            yield row(talk, path.stem)


def row(talk: Object, source: str) -> Object:
    """One conversation, harmless, as a whole request body."""
    dialect = talk.get("dialect", "chat")
    return {
        "id": talk["id"],
        "kind": talk.get("kind", source),
        "lang": talk.get("lang", "en"),
        "source": source,
        "benign": True,
        "dialect": dialect,
        "body": _BODIES[dialect](talk),
    }


@lru_cache(maxsize=1)
def tools() -> dict[str, list[Object]]:
    """The sets of tools: name, description and schema of each."""
    sets: dict[str, list[Object]] = {}
    name = ""
    for line in (FOLDER / "tools.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            name = line.strip("[]")
            sets[name] = []
        elif name and line:
            sets[name].append(_tool(line))
    return sets


def _tool(line: str) -> Object:
    head, *properties = (part.strip() for part in line.split(" | "))
    name, _, description = head.partition(": ")
    schema: Object = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for text in properties:
        key, _, remainder = text.partition(" ")
        kind, _, result = remainder.partition(" ")
        base, *values = kind.split(",")
        named = key.rstrip("*")
        schema["properties"][named] = {
            "type": base,
            **({"enum": values} if values else {}),
            **({"items": {"type": "string"}} if base == "array" else {}),
            **({"description": result} if result else {}),
        }
        schema["required"] += [named] if key.endswith("*") else []
    return {"name": name, "description": description, "schema": schema}


def _tools_of(talk: Object) -> list[Object]:
    return [tool for name in talk.get("tools", ()) for tool in tools()[name]]


def _text_of(value: Any) -> str:
    """A text, or one with generated parts: `{bulk, bytes, seed, before, after}`."""
    if not isinstance(value, dict):
        return str(value)
    bulk = traffic_bulk.text(value["bulk"], int(value["bytes"]), int(value.get("seed", 1)))
    return f"{value.get('before', '')}{bulk}{value.get('after', '')}"


def _turns(talk: Object) -> Iterator[tuple[str, Any, str]]:
    """`user`, `model`, `call` (its name and arguments) or `result` turns; calls and results have the id of the call."""
    number = 0
    for turn in talk["turns"]:
        ((who, value),) = turn.items()
        number += who == "call"
        yield who, value if who == "call" else _text_of(value), f"call_{number:04d}"


def _chat(talk: Object) -> Object:
    messages: list[Object] = [{"role": "system", "content": _text_of(talk["system"])}] if "system" in talk else []
    for who, value, ident in _turns(talk):
        if who == "call":
            name, arguments = value
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            call = {"id": ident, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif who == "result":
            messages.append({"role": "tool", "tool_call_id": ident, "content": value})
        else:
            messages.append({"role": "assistant" if who == "model" else "user", "content": value})
    offered = [
        {"type": "function", "function": {k: t[k] for k in ("name", "description")} | {"parameters": t["schema"]}}
        for t in _tools_of(talk)
    ]
    return {"model": MODEL, "messages": messages, **_present(tools=offered), **talk.get("more", {})}


def _messages(talk: Object) -> Object:
    """Anthropic: blocks, the system prompt apart, and results in a user's turn."""
    messages: list[Object] = []
    for who, value, ident in _turns(talk):
        if who == "call":
            block = {"type": "tool_use", "id": f"toolu_{ident}", "name": value[0], "input": value[1]}
        elif who == "result":
            block = {"type": "tool_result", "tool_use_id": f"toolu_{ident}", "content": value}
        else:
            block = {"type": "text", "text": value}
        role = "assistant" if who in {"call", "model"} else "user"
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].append(block)
        else:
            messages.append({"role": role, "content": [block]})
    offered = [{k: t[k] for k in ("name", "description")} | {"input_schema": t["schema"]} for t in _tools_of(talk)]
    system = (
        [{"type": "text", "text": _text_of(talk["system"]), "cache_control": {"type": "ephemeral"}}]
        if "system" in talk
        else []
    )
    body = {"model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": messages}
    return body | _present(system=system, tools=offered) | talk.get("more", {})


def _responses(talk: Object) -> Object:
    items: list[Object] = []
    for who, value, ident in _turns(talk):
        if who == "call":
            arguments = json.dumps(value[1], ensure_ascii=False)
            items.append({"type": "function_call", "call_id": ident, "name": value[0], "arguments": arguments})
        elif who == "result":
            items.append({"type": "function_call_output", "call_id": ident, "output": value})
        else:
            kind, role = ("output_text", "assistant") if who == "model" else ("input_text", "user")
            items.append({"type": "message", "role": role, "content": [{"type": kind, "text": value}]})
    offered = [
        {
            "type": "function",
            "name": t["name"],
            "description": t["description"],
            "parameters": t["schema"],
            "strict": False,
        }
        for t in _tools_of(talk)
    ]
    fields = _present(instructions=_text_of(talk.get("system", "")), tools=offered)
    return {"model": MODEL, "input": items, "store": False, **fields, **talk.get("more", {})}


def _completions(talk: Object) -> Object:
    prompt = "\n\n".join(value for _, value, _ in _turns(talk))
    return {"model": "gpt-3.5-turbo-instruct", "prompt": prompt, "max_tokens": 256, **talk.get("more", {})}


def _embeddings(talk: Object) -> Object:
    return {"model": "text-embedding-3-small", "input": [value for _, value, _ in _turns(talk)], **talk.get("more", {})}


def _present(**fields: Any) -> Object:
    return {name: value for name, value in fields.items() if value}


_BODIES = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "completions": _completions,
    "embeddings": _embeddings,
}


def write(requests: Iterable[Object]) -> None:
    """A JSON object a line on standard output."""
    for request in requests:
        sys.stdout.write(json.dumps(request, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(rows())
