"""Classifies a request target by its operation before the body is read.

A target that two servers could read differently (`%2F`, `//`, `/./`, `..`, `;x`, a trailing slash, the
wrong case) is refused, never normalized: the classified target is forwarded byte for byte. In a GET, which carries no
prompt, an id may hold a slash or a space (`/models/org/model`, `/models/org%2Fmodel`), if both readings name the same
route; so may the ARN of a model in Amazon's routes. The query has no influence: `query.py` reads its words. A route
that is not in the table is `UNKNOWN`, which the proxy refuses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from sidecar.errors import BodyError
from sidecar.protocols import BEDROCK, PROTOCOLS, Protocol, RouteKind, protocol_of

_Segments = tuple[str, ...]
_Patterns = tuple[tuple[str, _Segments], ...]
_Table = dict[tuple[int, str], _Patterns]


@dataclass(frozen=True, slots=True)
class Route:
    """A classified request target. `path` is the target as received, to be forwarded byte for byte."""

    kind: RouteKind
    operation: str
    path: str
    prefix: str
    dialect: str = "openai"
    """The name of its protocol."""
    deployment: str | None = None
    """The model named in the path, as in Azure's, Google's and Amazon's."""


_DEPLOYMENT = re.compile(r"/deployments/([^/]+)$")
# Administration and agents, at any depth: may be read and deleted, but not written through a prompt scanner.
_READ_ONLY = frozenset({"agents", "organization", "projects", "safety", "vaults", "webhook_endpoints"})
_SOCKETS = frozenset({"/realtime", "/responses"})
MAX_CACHED_TARGET = 128
"""Longest request target whose route is cached, in characters."""
_BODILESS = frozenset({"GET", "HEAD", "DELETE"})
_READS = frozenset({"GET", "HEAD"})
_WITH_SLASHES = "/models/{id}"
"""The route whose ids are model names, which contain slashes on many servers."""
_WITH_ARNS = frozenset(name for names in BEDROCK.routes.values() for name in names.split())
"""The routes whose ids are model names or ARNs."""
_WRITES = frozenset({"POST", "PUT", "PATCH"})
_KINDS = {
    pattern: kind for each in PROTOCOLS.values() for kind, lines in each.routes.items() for pattern in lines.split()
}

# `%3A` and `%40` (`:` and `@` in the id of a fine-tuned model) are the only escapes that clients need in a request
# with a prompt.
_PLAIN = r"[A-Za-z0-9\-._~!$&'()*+,=:@]|%3A|%40"
_PATH = re.compile(rf"(?:/(?:{_PLAIN})+)+|/")
_PATH_OF_MODEL = re.compile(rf"(?:/(?:{_PLAIN})+)*/model/(?:{_PLAIN}|%2[Ff])+/[a-z-]+")
"""Of Amazon's routes, whose model may be an ARN with a slash."""
_PATH_OF_READ = re.compile(rf"(?:/(?:{_PLAIN}|%2[Ff]|%20)+)+|/")
_FAULTS = (
    (re.compile(r"[^!-~]"), "holds a character outside printable ASCII"),
    (re.compile(r"#"), "holds a fragment"),
    (re.compile(r"\\"), "holds a backslash"),
)
_PATH_FAULTS = (
    (re.compile(r"^[^/]|^$"), "is not an absolute path"),
    (re.compile(r"//"), "holds an empty segment"),
    (re.compile(r"/\.{1,2}(?:/|$)"), "holds a dot segment"),
    (re.compile(r"./$"), "ends in a slash"),
    (re.compile(r";"), "holds a path parameter"),
    (re.compile(r"%(?:2[fF]|5[cC]|3[fF]|23|3[bB]|25)"), "holds an encoded delimiter"),
    (re.compile(r"%(?:[01][0-9A-Fa-f]|20|7[fF])"), "holds an encoded control character or blank"),
    (re.compile(r"%"), "holds an escape that is not canonical"),
)


def classify(method: str, raw_path: str, *, prefixes: Sequence[str], extra: Sequence[str] = ()) -> Route:
    """The route of `method` and the request target as received.

    `prefixes` may hold `{placeholders}` and may be empty strings; `extra` are complete paths defined
    by the operator, whose bodies are parsed as JSON and scanned like an inference. Raises `BodyError`
    with kind `path` (status 400) for a target that is not in canonical form.
    """
    classifier = _classified if len(raw_path) <= MAX_CACHED_TARGET else _classified.__wrapped__
    return classifier(method, raw_path, tuple(prefixes), tuple(extra))


@lru_cache(maxsize=512)
def _classified(method: str, raw_path: str, prefixes: tuple[str, ...], extra: tuple[str, ...]) -> Route:
    path = _canonical(raw_path, _PATH_OF_READ if method in _READS else _PATH, _PATH_OF_MODEL)
    segments = tuple(path.split("/")[1:])
    bases, custom = _split_patterns(prefixes), _split_patterns(extra)
    match = _find(method, segments, bases, custom)
    if any("%2" in segment for segment in segments) and not _is_one_route(method, segments, match, bases, custom):
        raise _not_canonical("holds an encoded delimiter or blank outside an id")
    lower = tuple(segment.lower() for segment in segments)
    folded_match = _find(method, lower, _lower(bases), _lower(custom), _LOWER_TABLE)
    if folded_match is not None and (match is None or match.operation != folded_match.operation):
        raise _not_canonical("differs from a known route in upper and lower case")
    if match is None:
        return Route(RouteKind.UNKNOWN, "", raw_path, "")
    prefix = "".join(f"/{segment}" for segment in segments[: match.prefix])
    served = protocol_of(match.operation)
    return Route(match.kind, match.operation, raw_path, prefix, served.name, _model_in_path(served, path, prefix))


def _model_in_path(served: Protocol, path: str, prefix: str) -> str | None:
    match = served.model_in_path.search(path) if served.model_in_path else _DEPLOYMENT.search(prefix)
    return unquote(match[1]) if match else None


def _is_one_route(method: str, segments: _Segments, match: _Match | None, bases: _Patterns, custom: _Patterns) -> bool:
    """Whether a target with escapes in its ids names a route, and the same route to a server that decodes them."""
    if match is None or any("%2" in part for part in segments[: match.prefix]):
        return False
    if match.kind is not RouteKind.PASS and match.operation not in _WITH_ARNS:
        return False
    decoded_segments = "/".join(segments).replace("%2F", "/").replace("%2f", "/").replace("%20", " ").split("/")
    if not {"", ".", ".."}.isdisjoint(part.strip() for part in decoded_segments):
        return False
    decoded_match = _find(method, tuple(decoded_segments), bases, custom)
    return decoded_match is None or decoded_match.operation == match.operation


def _kind(method: str, operation: str) -> RouteKind:
    if method in _BODILESS:
        return RouteKind.WEBSOCKET if method == "GET" and operation in _SOCKETS else RouteKind.PASS
    return _KINDS.get(operation, RouteKind.UNKNOWN) if method == "POST" else RouteKind.UNKNOWN


def _custom_kind(method: str) -> RouteKind:
    if method in _BODILESS:
        return RouteKind.PASS
    return RouteKind.INFERENCE if method in _WRITES else RouteKind.UNKNOWN


def _canonical(target: str, *forms: re.Pattern[str]) -> str:
    """The path of a target in canonical form; raises `BodyError` for any other."""
    for fault, problem in _FAULTS:
        if fault.search(target):
            raise _not_canonical(problem)
    path = target.partition("?")[0]
    if (
        not any(form.fullmatch(path) for form in forms)
        or path.endswith(("/.", "/.."))
        or "/./" in path
        or "/../" in path
    ):
        raise _not_canonical(
            next((problem for fault, problem in _PATH_FAULTS if fault.search(path)), "holds a reserved character")
        )
    return path


def _not_canonical(problem: str) -> BodyError:
    return BodyError("path", f"The request path {problem}; only the canonical path is served.")


@lru_cache(maxsize=32)
def _split_patterns(patterns: tuple[str, ...]) -> _Patterns:
    """Split patterns into segments, longest first, so that `/v1` is tried before an empty prefix."""
    split = [(pattern, tuple(pattern.strip("/").split("/")) if pattern.strip("/") else ()) for pattern in patterns]
    return tuple(sorted(split, key=lambda item: -len(item[1])))


@lru_cache(maxsize=32)
def _lower(patterns: _Patterns) -> _Patterns:
    return tuple((name, tuple(segment.lower() for segment in pattern)) for name, pattern in patterns)


class _Match(NamedTuple):
    """A route and the number of segments of its prefix."""

    kind: RouteKind
    operation: str
    prefix: int = 0


def _find(
    method: str, segments: _Segments, prefixes: _Patterns, custom: _Patterns, table: _Table | None = None
) -> _Match | None:
    """The first known route; if it does not support the method, the operator's route; else None."""
    match = None
    for _, pattern in prefixes:
        operation = _operation(segments[len(pattern) :], method, _TABLE if table is None else table)
        if operation is not None and _matches(segments[: len(pattern)], pattern):
            match = _Match(_kind(method, operation), operation, len(pattern))
            break
    if match is not None and match.kind is not RouteKind.UNKNOWN:
        return match
    return next((_Match(_custom_kind(method), name) for name, pattern in custom if _matches(segments, pattern)), match)


def _operation(segments: _Segments, method: str, table: _Table) -> str | None:
    if not segments or segments[0] in _READ_ONLY:
        return f"/{segments[0]}" if segments else None
    if segments[0] == "models" and len(segments) > 2 and method in _READS:
        return _WITH_SLASHES
    candidates = table.get((len(segments), segments[0]), ())
    return next((name for name, pattern in candidates if _matches(segments, pattern)), None)


def _matches(segments: _Segments, pattern: _Segments) -> bool:
    return len(segments) == len(pattern) and all(map(_fits, segments, pattern))


def _fits(segment: str, expected: str) -> bool:
    """Whether a segment is the expected one, or anything (`{id}`), or anything with a method behind it (`{id}:run`)."""
    if not expected.startswith("{"):
        return expected == segment
    method = expected.partition("}")[2]
    return not method or (segment.endswith(method) and len(segment) > len(method))


def _table(*, lower: bool = False) -> _Table:
    """Known routes by length and first segment; literals precede `{id}:run`, and that `{id}`."""
    table: dict[tuple[int, str], _Patterns] = {}
    patterns = _split_patterns(tuple(_KINDS))
    for name, pattern in sorted(
        _lower(patterns) if lower else patterns,
        key=lambda item: [part.startswith("{") + part.endswith("}") for part in item[1]],
    ):
        key = (len(pattern), pattern[0])
        table[key] = (*table.get(key, ()), (name, pattern))
    return table


_TABLE = _table()
_LOWER_TABLE = _table(lower=True)
