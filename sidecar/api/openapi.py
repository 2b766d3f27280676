"""The OpenAPI 3.1 description of our own routes, from `openapi.yaml`, and the page that shows it to people.

Only what is switched on is described. The page is drawn here, without a script and without anything from elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sidecar import __version__
from sidecar.util import json

HERE = Path(__file__).parent
ADMIN = "admin"
"""The switch of what the admin port alone answers; the others are the names of the settings in `compat`."""
WHEN = "x-when"
PARTS = "x-parts"
Json = dict[str, Any]
Switches = Callable[[], frozenset[str]]


def document(on: frozenset[str] = frozenset()) -> Json:
    """What is answered with these switches on."""
    whole: Json = yaml.safe_load((HERE / "openapi.yaml").read_text("utf-8"))
    del whole[PARTS]
    whole["info"]["version"] = __version__
    whole["paths"] = {path: item for path, item in whole["paths"].items() if item.pop(WHEN, None) in {None, *on}}
    used = {tag for item in whole["paths"].values() for operation in item.values() for tag in operation["tags"]}
    whole["tags"] = [tag for tag in whole["tags"] if tag["name"] in used]
    return whole


def routes(on: Switches) -> list[web.RouteDef]:
    """The document, for the data port. `on` is asked at each request: settings change while it runs."""

    async def send(_request: web.Request) -> web.Response:
        return web.Response(body=await asyncio.to_thread(_raw, on()), content_type="application/json")

    return [web.get("/openapi.json", send)]


def admin_routes(on: Switches) -> list[web.RouteDef]:
    """The document and the page at `/reference`, for the admin port."""

    async def send(_request: web.Request) -> web.Response:
        return web.Response(text=await asyncio.to_thread(page, on() | {ADMIN}), content_type="text/html")

    return [*routes(lambda: on() | {ADMIN}), web.get("/reference", send)]


@lru_cache(maxsize=8)
def _raw(on: frozenset[str]) -> bytes:
    return json.dumps(document(on))


@lru_cache(maxsize=8)
def page(on: frozenset[str]) -> str:
    """The document as HTML."""
    api = document(on)
    names = _Names(api)
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"fields": names.fields, "shown": names.shown, "followed": names.followed}
    return environment.get_template("reference.html").render(api=api)


class _Names:
    """Follows references, and says in a few words what a schema takes."""

    def __init__(self, api: Json) -> None:
        self._api = api

    def followed(self, value: Json) -> Json:
        """What a reference points at; anything else is itself."""
        if "$ref" not in value:
            return value
        found: Json = reduce(lambda node, name: node[name], value["$ref"].split("/")[1:], self._api)
        return found

    def shown(self, schema: Json) -> str:
        """`string`, `list of Finding`, `allow or block`."""
        if "$ref" in schema:
            return str(schema["$ref"].rpartition("/")[2])
        if "enum" in schema or "const" in schema:
            return " or ".join(str(value) for value in schema.get("enum", [schema.get("const")]))
        if alternatives := schema.get("anyOf"):
            return " or ".join(self.shown(one) for one in alternatives)
        kinds = schema.get("type", "anything")
        if kinds == "array":
            return f"list of {self.shown(schema.get('items', {}))}"
        return kinds if isinstance(kinds, str) else " or ".join(kinds)

    def fields(self, schema: Json) -> Iterator[Mapping[str, Any]]:
        """The members of an object: name, type, whether required, what it means."""
        followed = self.followed(schema)
        for name, member in followed.get("properties", {}).items():
            yield {
                "name": name,
                "type": self.shown(member),
                "required": name in followed.get("required", ()),
                "text": member.get("description", ""),
            }
