"""YAML as operators write it, read strictly: a key that is set twice in one mapping is an error with both lines.

PyYAML keeps the last of them without a word, so that a setting or a test of a rule would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
YamlError = yaml.YAMLError


class StrictLoader(_BASE):  # type: ignore[misc]
    """The safe loader; each document is searched for duplicate keys before anything is made of it."""

    def construct_document(self, node: yaml.Node) -> Any:
        """The document's value. Raises `ConstructorError` on a duplicate key."""
        for mapping in _mappings(node):
            self._require_distinct_keys(mapping)
        return super().construct_document(node)

    def _require_distinct_keys(self, mapping: yaml.MappingNode) -> None:
        lines: dict[Any, int] = {}
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            name, line = self.construct_object(key), key.start_mark.line + 1
            if name in lines:
                problem = f"{key.value!r} is set twice, first in line {lines[name]}"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            lines[name] = line


def _mappings(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    """All mappings of a document, each once, however often it is referred to."""
    waiting, known = [root], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode) or id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            waiting += [value for _, value in node.value]
        else:
            waiting += node.value


def load(text: str | bytes) -> Any:
    """One document. Raises `YamlError`, or what PyYAML raises besides (`sidecar.errors.YAML_ERRORS`)."""
    return yaml.load(text, Loader=StrictLoader)  # noqa: S506 - a safe loader


def load_all(text: str | bytes) -> list[Any]:
    """Every document of a stream. Raises as `load` does."""
    return list(yaml.load_all(text, Loader=StrictLoader))


def describe(error: Exception) -> str:
    """The place and the problem in one line; the text around it, which may hold a secret, is not quoted."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    place = f"line {error.problem_mark.line + 1}, " if error.problem_mark else ""
    return f"{place}{error.problem}"
