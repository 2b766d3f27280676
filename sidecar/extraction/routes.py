"""Which operation a request target names, decided before a byte of the body is read.

A target that two servers could read differently (`%2F`, `//`, `/./`, `..`, `;x`, a trailing slash, the
wrong case) is refused, never repaired: what was classified is forwarded byte for byte. In a GET, which carries no
prompt, an id may hold a slash or a blank (`/models/org/model`, `/models/org%2Fmodel`), if both readings name the same
route. The query never changes the class. A route that is not in the table is `UNKNOWN`, which the web layer refuses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import unquote

from sidecar.errors import BodyError

Dialect = Literal["openai", "anthropic"]
_Segments = tuple[str, ...]
_Patterns = tuple[tuple[str, _Segments], ...]


class RouteKind(StrEnum):
    """What a route does with text, and so how its body is treated."""

    INFERENCE = "inference"
    """A JSON body that a model reads now."""
    STATEFUL = "stateful"
    """A JSON body whose text is stored and used later."""
    FILES = "files"
    """An upload, or a reference to one: `inline.files` decides."""
    MULTIPART = "multipart"
    """A form (or JSON) whose text fields are prompts, beside media."""
    WEBSOCKET = "websocket"
    """A socket on which text would pass unseen."""
    PASS = "pass"
    """No text in the request: a body here is refused."""
    UNKNOWN = "unknown"
    """Not in the table."""


@dataclass(frozen=True, slots=True)
class Route:
    """A classified request target. `path` is the target as received, to be forwarded byte for byte."""

    kind: RouteKind
    operation: str
    path: str
    prefix: str
    dialect: Dialect = "openai"

    @property
    def deployment(self) -> str | None:
        """The model that the path itself names, as Azure's does."""
        found = _DEPLOYMENT.search(self.prefix)
        return unquote(found[1]) if found else None


_DEPLOYMENT = re.compile(r"/deployments/([^/]+)$")
# What a POST does. A GET, HEAD or DELETE of any of these passes, but for the sockets below.
_POST = {
    RouteKind.INFERENCE: """
        /chat/completions /completions /responses /responses/compact /responses/input_tokens
        /embeddings /moderations /images/generations /audio/speech /videos/{id}/remix /threads/runs
        /messages /messages/count_tokens /messages/batches
        /rerank /score /tokenize
    """,
    RouteKind.STATEFUL: """
        /traces/ingest
        /chat/completions/{id}
        /assistants /assistants/{id} /threads /threads/{id} /threads/{id}/messages /threads/{id}/messages/{id}
        /threads/{id}/runs /threads/{id}/runs/{id} /threads/{id}/runs/{id}/submit_tool_outputs
        /conversations /conversations/{id} /conversations/{id}/items
        /realtime/client_secrets /realtime/sessions /realtime/transcription_sessions
        /realtime/translations/client_secrets
        /realtime/calls/{id}/accept /realtime/calls/{id}/reject /realtime/calls/{id}/refer
        /chatkit/sessions /evals /evals/{id} /evals/{id}/runs
        /fine_tuning/jobs /fine_tuning/alpha/graders/run /fine_tuning/alpha/graders/validate
        /fine_tuning/checkpoints/{id}/permissions
        /vector_stores /vector_stores/{id} /vector_stores/{id}/search /containers
    """,
    RouteKind.FILES: """
        /files /uploads /uploads/{id}/parts /uploads/{id}/complete /batches
        /skills /skills/{id} /skills/{id}/versions /containers/{id}/files
        /vector_stores/{id}/files /vector_stores/{id}/files/{id} /vector_stores/{id}/file_batches
    """,
    RouteKind.MULTIPART: """
        /audio/transcriptions /audio/translations /audio/voices /audio/voice_consents /audio/voice_consents/{id}
        /images/edits /images/variations /videos /videos/characters /videos/edits /videos/extensions
        /realtime/calls
    """,
    RouteKind.PASS: """
        /responses/{id}/cancel /threads/{id}/runs/{id}/cancel /batches/{id}/cancel /uploads/{id}/cancel
        /messages/batches/{id}/cancel /chatkit/sessions/{id}/cancel /realtime/calls/{id}/hangup
        /evals/{id}/runs/{id} /evals/{id}/runs/{id}/cancel /vector_stores/{id}/file_batches/{id}/cancel
        /fine_tuning/jobs/{id}/cancel /fine_tuning/jobs/{id}/pause /fine_tuning/jobs/{id}/resume
    """,
    RouteKind.UNKNOWN: """
        /realtime /models /models/{id} /chat/completions/{id}/messages /responses/{id} /responses/{id}/input_items
        /conversations/{id}/items/{id} /threads/{id}/runs/{id}/steps /threads/{id}/runs/{id}/steps/{id}
        /files/{id} /files/{id}/content /batches/{id} /messages/batches/{id} /messages/batches/{id}/results
        /videos/{id} /videos/{id}/content /videos/characters/{id} /audio/voices/{id}
        /chatkit/threads /chatkit/threads/{id} /chatkit/threads/{id}/items
        /evals/{id}/runs/{id}/output_items /evals/{id}/runs/{id}/output_items/{id}
        /fine_tuning/jobs/{id} /fine_tuning/jobs/{id}/events /fine_tuning/jobs/{id}/checkpoints
        /fine_tuning/checkpoints/{id}/permissions/{id}
        /vector_stores/{id}/files/{id}/content /vector_stores/{id}/file_batches/{id}
        /vector_stores/{id}/file_batches/{id}/files
        /skills/{id}/content /skills/{id}/versions/{id} /skills/{id}/versions/{id}/content
        /containers/{id} /containers/{id}/files/{id} /containers/{id}/files/{id}/content
    """,
}
# Administration and agents, of any depth: to be read and deleted, not written through a prompt scanner.
_READ_ONLY = frozenset({"agents", "organization", "projects", "safety", "vaults", "webhook_endpoints"})
_SOCKETS = frozenset({"/realtime", "/responses"})
MEMORABLE = 128
"""Characters of a request target up to which its route is remembered."""
_BODILESS = frozenset({"GET", "HEAD", "DELETE"})
_READS = frozenset({"GET", "HEAD"})
_WITH_SLASHES = "/models/{id}"
"""The route whose ids are names of models, which have slashes with many servers."""
_WRITES = frozenset({"POST", "PUT", "PATCH"})
_KINDS = {pattern: kind for kind, lines in _POST.items() for pattern in lines.split()}

# `%3A` and `%40` (`:` and `@` in the id of a fine-tuned model) are the only escapes that clients need in a request
# with a prompt.
_PLAIN = r"[A-Za-z0-9\-._~!$&'()*+,=:@]|%3A|%40"
_PATH = re.compile(rf"(?:/(?:{_PLAIN})+)+|/")
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
    """The route that `method` and the request target as received name.

    `prefixes` may hold `{placeholders}` and may be empty strings; `extra` are whole paths of the
    operator's own, whose bodies are read as JSON and scanned like an inference. Raises `BodyError`
    with kind `path` (status 400) for a target that is not in its one canonical form.
    """
    known = _classified if len(raw_path) <= MEMORABLE else _classified.__wrapped__
    return known(method, raw_path, tuple(prefixes), tuple(extra))


@lru_cache(maxsize=512)
def _classified(method: str, raw_path: str, prefixes: tuple[str, ...], extra: tuple[str, ...]) -> Route:
    path = _canonical(raw_path, _PATH_OF_READ if method in _READS else _PATH)
    segments = tuple(path.split("/")[1:])
    table, own = _cut(prefixes), _cut(extra)
    found = _find(method, segments, table, own)
    if any("%2" in segment for segment in segments) and not _is_one_route(method, segments, found, table, own):
        raise _refused("holds an encoded delimiter or blank where no id stands")
    folded = _find(method, tuple(segment.lower() for segment in segments), _lower(table), _lower(own))
    if folded is not None and (found is None or found.operation != folded.operation):
        raise _refused("differs from a known route in upper and lower case")
    if found is None:
        return Route(RouteKind.UNKNOWN, "", raw_path, "")
    prefix = "".join(f"/{segment}" for segment in segments[: found.prefix])
    return Route(found.kind, found.operation, raw_path, prefix, _dialect(found.operation))


def _is_one_route(method: str, segments: _Segments, found: _Found | None, table: _Patterns, own: _Patterns) -> bool:
    """Whether a target with escapes in its ids names a route, and the same one to a server that undoes them."""
    if found is None or found.kind is not RouteKind.PASS or any("%2" in part for part in segments[: found.prefix]):
        return False
    undone = "/".join(segments).replace("%2F", "/").replace("%2f", "/").replace("%20", " ").split("/")
    if not {"", ".", ".."}.isdisjoint(part.strip() for part in undone):
        return False
    other = _find(method, tuple(undone), table, own)
    return other is None or other.operation == found.operation


def _dialect(operation: str) -> Dialect:
    return "anthropic" if operation in _KINDS and operation.startswith("/messages") else "openai"


def _kind(method: str, operation: str) -> RouteKind:
    if method in _BODILESS:
        return RouteKind.WEBSOCKET if method == "GET" and operation in _SOCKETS else RouteKind.PASS
    return _KINDS.get(operation, RouteKind.UNKNOWN) if method == "POST" else RouteKind.UNKNOWN


def _own_kind(method: str) -> RouteKind:
    if method in _BODILESS:
        return RouteKind.PASS
    return RouteKind.INFERENCE if method in _WRITES else RouteKind.UNKNOWN


def _canonical(target: str, form: re.Pattern[str]) -> str:
    """The path of a target in canonical form; anything else raises."""
    for fault, said in _FAULTS:
        if fault.search(target):
            raise _refused(said)
    path = target.partition("?")[0]
    if not form.fullmatch(path) or path.endswith(("/.", "/..")) or "/./" in path or "/../" in path:
        raise _refused(next((said for fault, said in _PATH_FAULTS if fault.search(path)), "holds a reserved character"))
    return path


def _refused(said: str) -> BodyError:
    return BodyError("path", f"The request path {said}; only the canonical path is served.")


@lru_cache(maxsize=32)
def _cut(patterns: tuple[str, ...]) -> _Patterns:
    """Patterns with their segments, the longest first, so that `/v1` goes before an empty prefix."""
    cut = [(pattern, tuple(pattern.strip("/").split("/")) if pattern.strip("/") else ()) for pattern in patterns]
    return tuple(sorted(cut, key=lambda item: -len(item[1])))


@lru_cache(maxsize=32)
def _lower(patterns: _Patterns) -> _Patterns:
    return tuple((name, tuple(segment.lower() for segment in pattern)) for name, pattern in patterns)


class _Found(NamedTuple):
    """A route, and how many segments its prefix has."""

    kind: RouteKind
    operation: str
    prefix: int = 0


def _find(method: str, segments: _Segments, prefixes: _Patterns, own: _Patterns) -> _Found | None:
    """The first known route; the operator's own where that has no use for the method; else None."""
    known = None
    for _, pattern in prefixes:
        operation = _operation(segments[len(pattern) :], method)
        if operation is not None and _fits(segments[: len(pattern)], pattern):
            known = _Found(_kind(method, operation), operation, len(pattern))
            break
    if known is not None and known.kind is not RouteKind.UNKNOWN:
        return known
    return next((_Found(_own_kind(method), name) for name, pattern in own if _fits(segments, pattern)), known)


def _operation(segments: _Segments, method: str) -> str | None:
    if not segments or segments[0] in _READ_ONLY:
        return f"/{segments[0]}" if segments else None
    if segments[0] == "models" and len(segments) > 2 and method in _READS:
        return _WITH_SLASHES
    candidates = _TABLE.get((len(segments), segments[0]), ())
    return next((name for name, pattern in candidates if _fits(segments, pattern)), None)


def _fits(segments: _Segments, pattern: _Segments) -> bool:
    return len(segments) == len(pattern) and all(
        want == have or want.startswith("{") for have, want in zip(segments, pattern, strict=True)
    )


def _table() -> dict[tuple[int, str], _Patterns]:
    """Known routes by length and first segment; among equals, literals go before `{id}`."""
    table: dict[tuple[int, str], _Patterns] = {}
    for name, pattern in sorted(_cut(tuple(_KINDS)), key=lambda item: [part.startswith("{") for part in item[1]]):
        key = (len(pattern), pattern[0])
        table[key] = (*table.get(key, ()), (name, pattern))
    return table


_TABLE = _table()
