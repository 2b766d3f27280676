"""The OpenAPI 3.1 description of our own routes, from `openapi.yaml`, and the HTML page that shows it.

Only enabled routes are described. The page is rendered here, without scripts or external resources; the dashboard gives
it its frame.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from sidecar import __version__
from sidecar.util import json

HERE = Path(__file__).parent
ADMIN = "admin"
"""The switch for routes of the admin port only; the others are the names of the settings in `compat`."""
WHEN = "x-when"
PARTS = "x-parts"
_BACKTICKS = re.compile(r"`([^`\n]+)`")
Json = dict[str, Any]
Switches = Callable[[], frozenset[str]]


def document(switches: frozenset[str] = frozenset()) -> Json:
    """The document for these switches."""
    specification: Json = yaml.safe_load((HERE / "openapi.yaml").read_text("utf-8"))
    del specification[PARTS]
    specification["info"]["version"] = __version__
    specification["paths"] = {
        path: item for path, item in specification["paths"].items() if item.pop(WHEN, None) in {None, *switches}
    }
    used = {tag for item in specification["paths"].values() for operation in item.values() for tag in operation["tags"]}
    specification["tags"] = [tag for tag in specification["tags"] if tag["name"] in used]
    return specification


def routes(switches: Switches) -> list[web.RouteDef]:
    """The document, for the data port. `switches` is called for each request, since settings can be reloaded."""

    async def send(_request: web.Request) -> web.Response:
        return web.Response(body=await asyncio.to_thread(_raw, switches()), content_type="application/json")

    return [web.get("/openapi.json", send)]


def admin_routes(switches: Switches) -> list[web.RouteDef]:
    """The document, for the admin port; the dashboard shows it at `/reference`."""
    return routes(lambda: switches() | {ADMIN})


@lru_cache(maxsize=8)
def _raw(switches: frozenset[str]) -> bytes:
    return json.dumps(document(switches))


@lru_cache(maxsize=8)
def page(switches: frozenset[str]) -> str:
    """The document as HTML, without the frame of a page."""
    api = document(switches)
    schema_text = _SchemaText(api)
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "fields": schema_text.fields,
        "describe_type": schema_text.describe_type,
        "resolve": schema_text.resolve,
        "code": _code,
    }
    return environment.get_template("reference.html").render(api=api)


def _code(text: str) -> Markup:
    """Escaped text, with what stands in backticks as code."""
    return Markup(_BACKTICKS.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped above


class _SchemaText:
    """Resolves references and describes schemas in a few words."""

    def __init__(self, api: Json) -> None:
        self._api = api

    def resolve(self, value: Json) -> Json:
        """The target of a reference; any other value unchanged."""
        if "$ref" not in value:
            return value
        node: Json = reduce(lambda node, name: node[name], value["$ref"].split("/")[1:], self._api)
        return node

    def describe_type(self, schema: Json) -> str:
        """`string`, `list of Finding`, `allow or block`."""
        if "$ref" in schema:
            return str(schema["$ref"].rpartition("/")[2])
        if "enum" in schema or "const" in schema:
            return " or ".join(str(value) for value in schema.get("enum", [schema.get("const")]))
        if alternatives := schema.get("anyOf"):
            return " or ".join(self.describe_type(alternative) for alternative in alternatives)
        kinds = schema.get("type", "anything")
        if kinds == "array":
            return f"list of {self.describe_type(schema.get('items', {}))}"
        return kinds if isinstance(kinds, str) else " or ".join(kinds)

    def fields(self, schema: Json) -> Iterator[Mapping[str, Any]]:
        """The members of an object: name, type, whether required, description."""
        target = self.resolve(schema)
        for name, member in target.get("properties", {}).items():
            yield {
                "name": name,
                "type": self.describe_type(member),
                "required": name in target.get("required", ()),
                "text": member.get("description", ""),
            }
