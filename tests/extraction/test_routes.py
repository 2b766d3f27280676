"""Tests `sidecar.extraction.routes`: the kind of every route, and that only its canonical spelling is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config import Inline
from sidecar.errors import BodyError
from sidecar.extraction.routes import classify
from sidecar.protocols import RouteKind

PREFIXES = ("/v1", "/openai/deployments/{deployment}")
TABLE = json.loads((Path(__file__).parent.parent / "data" / "openai_text_paths.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("method", "target", "kind", "operation"),
    [
        ("POST", "/v1/chat/completions", RouteKind.INFERENCE, "/chat/completions"),
        ("POST", "/v1/chat/completions?api-version=2026&x=/../y", RouteKind.INFERENCE, "/chat/completions"),
        ("POST", "/openai/deployments/my-gpt.4/chat/completions", RouteKind.INFERENCE, "/chat/completions"),
        ("POST", "/v1/responses/input_tokens", RouteKind.INFERENCE, "/responses/input_tokens"),
        ("POST", "/v1/threads/runs", RouteKind.INFERENCE, "/threads/runs"),
        ("POST", "/v1/messages", RouteKind.INFERENCE, "/messages"),
        ("POST", "/v1/messages/count_tokens", RouteKind.INFERENCE, "/messages/count_tokens"),
        ("POST", "/v1/threads/th_1/messages", RouteKind.STATEFUL, "/threads/{id}/messages"),
        ("POST", "/v1/threads/th_1/runs/r/submit_tool_outputs", RouteKind.STATEFUL, None),
        ("POST", "/v1/conversations/c/items", RouteKind.STATEFUL, "/conversations/{id}/items"),
        ("POST", "/v1/vector_stores/vs/search", RouteKind.STATEFUL, "/vector_stores/{id}/search"),
        ("POST", "/v1/files", RouteKind.FILES, "/files"),
        ("POST", "/v1/batches", RouteKind.FILES, "/batches"),
        ("POST", "/v1/vector_stores/vs/files", RouteKind.FILES, "/vector_stores/{id}/files"),
        ("POST", "/v1/audio/transcriptions", RouteKind.MULTIPART, "/audio/transcriptions"),
        ("POST", "/v1/images/edits", RouteKind.MULTIPART, "/images/edits"),
        ("GET", "/v1/realtime?model=x", RouteKind.WEBSOCKET, "/realtime"),
        ("GET", "/v1/responses", RouteKind.WEBSOCKET, "/responses"),
        ("GET", "/v1/responses/resp_1?stream=true", RouteKind.PASS, "/responses/{id}"),
        ("GET", "/v1/models", RouteKind.PASS, "/models"),
        ("GET", "/v1/models/ft:gpt-4o:org::abc", RouteKind.PASS, "/models/{id}"),
        ("GET", "/v1/models/ft%3Agpt-4o", RouteKind.PASS, "/models/{id}"),
        ("GET", "/v1/models/org/model", RouteKind.PASS, "/models/{id}"),
        ("GET", "/v1/models/org%2Fmodel", RouteKind.PASS, "/models/{id}"),
        ("HEAD", "/v1/models/org%2fmodel%3A70b", RouteKind.PASS, "/models/{id}"),
        ("GET", "/v1/models/my%20model", RouteKind.PASS, "/models/{id}"),
        ("GET", "/v1/files/a%2Fb", RouteKind.PASS, "/files/{id}"),
        ("DELETE", "/v1/models/org/model", RouteKind.UNKNOWN, ""),
        ("POST", "/v1/models/org/model", RouteKind.UNKNOWN, ""),
        ("POST", "/v1/rerank", RouteKind.INFERENCE, "/rerank"),
        ("POST", "/v1/traces/ingest", RouteKind.STATEFUL, "/traces/ingest"),
        ("HEAD", "/v1/files/f1/content", RouteKind.PASS, "/files/{id}/content"),
        ("DELETE", "/v1/threads/th_1", RouteKind.PASS, "/threads/{id}"),
        ("POST", "/v1/responses/resp_1/cancel", RouteKind.PASS, "/responses/{id}/cancel"),
        ("GET", "/v1/organization/projects/p/api_keys", RouteKind.PASS, "/organization"),
        ("POST", "/v1/organization/projects", RouteKind.UNKNOWN, "/organization"),
        ("POST", "/v1/models/m", RouteKind.UNKNOWN, "/models/{id}"),
        ("PUT", "/v1/chat/completions", RouteKind.UNKNOWN, "/chat/completions"),
        ("post", "/v1/chat/completions", RouteKind.UNKNOWN, "/chat/completions"),
        ("POST", "/chat/completions", RouteKind.UNKNOWN, ""),
        ("POST", "/v1/v1/chat/completions", RouteKind.UNKNOWN, ""),
        ("POST", "/v1/engines/x/completions", RouteKind.UNKNOWN, ""),
        ("GET", "/", RouteKind.UNKNOWN, ""),
        ("GET", "/v1", RouteKind.UNKNOWN, ""),
    ],
)
def test_routes_have_their_class(method: str, target: str, kind: RouteKind, operation: str | None) -> None:
    """Method and path determine the kind; the query and the deployment's name do not."""
    route = classify(method, target, prefixes=PREFIXES)
    assert route.kind is kind
    assert route.path == target
    assert operation is None or route.operation == operation


DISGUISES = [
    "/v1/chat%2Fcompletions", "/v1/chat%2fcompletions", "/v1//chat/completions", "//v1/chat/completions",
    "/v1/chat/completions/", "/v1/chat/completions//", "/V1/chat/completions", "/v1/Chat/completions",
    "/v1/chat/Completions", "/v1/CHAT/COMPLETIONS", "/v1/./chat/completions", "/v1/chat/completions/.",
    "/v1/x/../chat/completions", "/v1/chat/completions/..", "/..", "/.", "/v1/%2e%2e/v1/chat/completions",
    "/v1/%2E/chat/completions", "/v1/chat/completions;x=1", "/v1;x/chat/completions", "/v1/chat/completions%3B",
    "/v1/chat/completions%00", "/v1/chat/completions%20", "/v1/chat/completions%09", "/v1/chat/completions%0d%0a",
    "/v1/chat/completions%3F", "/v1/chat/completions%23", "/v1/chat%5Ccompletions", "/v1\\chat\\completions",
    "/v1/chat\\completions", "/v1/%63hat/completions", "/v1/chat/%63ompletions", "/v1/chat/completions%",
    "/v1/chat/completions%2", "/v1/chat/completions%zz", "/v1/chat/completions%252F", "/v1/ch%C3%A4t/completions",
    "/v1/chät/completions", "/v1/chat/completions ", " /v1/chat/completions", "/v1/chat /completions",
    "/v1/chat/completions\t", "/v1/chat/completions\x00", "/v1/chat/completions\r\n", "/v1/chat/completions#x",
    "/v1/models?x#y", "/v1/models?x\\y", "/v1/models?ä", "http://evil/v1/chat/completions", "//evil/v1/models",
    "https:/v1/models", "v1/chat/completions", "*", "", "evil:443",
    "/v1/models/<x>", '/v1/models/"x"', "/v1/models/{x}",
    "/v1/models/x|y", "/v1/models/x^y", "/v1/models/ft%3agpt", "/openai/Deployments/d/chat/completions",
    "/v1/threads/RUNS", "/v1/Organization/users", "/v1/models/x/../y", "/v1/models/%7Ex",
]  # fmt: skip


@pytest.mark.parametrize("target", DISGUISES)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_that_is_not_canonical_is_refused(method: str, target: str) -> None:
    """An ambiguous target is refused with 400 and kind `path`, and is not quoted."""
    with pytest.raises(BodyError) as caught:
        classify(method, target, prefixes=PREFIXES)
    assert (caught.value.kind, caught.value.status) == ("path", 400)
    assert "completions" not in caught.value.detail


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/v1/models/org%2Fmodel"),
        ("DELETE", "/v1/models/org%2Fmodel"),
        ("GET", "/v1/models/..%2Fchat"),
        ("GET", "/v1/models/a%2F..%2F..%2Fchat"),
        ("GET", "/v1/models/a%2F%2E%2E"),
        ("GET", "/v1/models/a%2F"),
        ("GET", "/v1/models/%20"),
        ("GET", "/v1/models/a%2F%20"),
        ("GET", "/v1/models%2Fa"),
        ("GET", "/v1/files/a%2Fcontent"),
        ("GET", "/v1/threads/a%2Fruns"),
        ("GET", "/openai/deployments/a%2Fb/models"),
        ("GET", "/v1/models/a/../b"),
        ("GET", "/v1/models/a//b"),
    ],
)
def test_an_id_that_would_name_another_route_is_refused(method: str, target: str) -> None:
    """Escapes are accepted only in ids of a GET, if both readings are the same route without a dot segment."""
    with pytest.raises(BodyError) as caught:
        classify(method, target, prefixes=PREFIXES)
    assert caught.value.kind == "path"


@pytest.mark.parametrize(
    "path", ["/openai/v1/responses", "/openai/responses", "/v1beta/openai/chat/completions", "/chat/completions"]
)
def test_the_usual_places_of_the_api_are_served_by_default(path: str) -> None:
    """Azure's current routes, Gemini's, and a base URL without `/v1`."""
    assert classify("POST", path, prefixes=Inline().prefixes).kind is RouteKind.INFERENCE


@pytest.mark.parametrize("name", TABLE)
def test_every_operation_of_the_table_is_served(name: str) -> None:
    """No operation with text is unknown or passes unscanned."""
    path = name.split(maxsplit=1)[0]
    concrete = "/".join("x_1" if part.startswith("{") else part for part in path.split("/"))
    route = classify("POST", f"/v1{concrete}", prefixes=PREFIXES)
    assert route.kind in {RouteKind.INFERENCE, RouteKind.STATEFUL, RouteKind.FILES, RouteKind.MULTIPART}
    assert route.operation == "/".join("{id}" if part.startswith("{") else part for part in path.split("/"))


def test_an_empty_prefix_serves_bare_paths_and_gives_way_to_a_longer_one() -> None:
    """With `""` and `/v1` both routes exist, and the longer matching prefix is used."""
    prefixes = ("", "/v1")
    assert classify("POST", "/chat/completions", prefixes=prefixes).prefix == ""
    assert classify("POST", "/v1/chat/completions", prefixes=prefixes).prefix == "/v1"
    assert classify("POST", "/openai/deployments/d/embeddings", prefixes=PREFIXES).prefix == "/openai/deployments/d"


def test_the_dialect_is_that_of_the_route() -> None:
    """`/messages` is Anthropic's, everything else OpenAI's."""
    assert classify("POST", "/v1/messages/count_tokens", prefixes=PREFIXES).dialect == "anthropic"
    assert classify("POST", "/v1/threads/t/messages", prefixes=PREFIXES).dialect == "openai"


def test_routes_of_the_operators_own_are_scanned() -> None:
    """A configured route is an inference with a body, passes without one, and is case-sensitive."""
    extra = ("/tokenize", "/Score/{id}", "/v1/agents", "/v1/chat/completions")
    assert classify("POST", "/v1/agents", prefixes=PREFIXES, extra=extra).kind is RouteKind.INFERENCE
    assert classify("POST", "/v1/chat/completions", prefixes=PREFIXES, extra=extra).operation == "/chat/completions"
    assert classify("POST", "/tokenize", prefixes=PREFIXES, extra=extra).kind is RouteKind.INFERENCE
    assert classify("PUT", "/Score/x", prefixes=PREFIXES, extra=extra).kind is RouteKind.INFERENCE
    assert classify("GET", "/tokenize", prefixes=PREFIXES, extra=extra).kind is RouteKind.PASS
    assert classify("OPTIONS", "/tokenize", prefixes=PREFIXES, extra=extra).kind is RouteKind.UNKNOWN
    with pytest.raises(BodyError):
        classify("POST", "/TOKENIZE", prefixes=PREFIXES, extra=extra)


@given(st.sampled_from(["GET", "POST", "PUT", "BREW"]), st.text(max_size=40).map(lambda text: f"/v1/chat{text}"))
def test_only_one_spelling_reaches_a_known_route(method: str, target: str) -> None:
    """With any suffix, a target is either the exact path, unknown, or refused."""
    try:
        route = classify(method, target, prefixes=PREFIXES)
    except BodyError:
        return
    if route.operation == "/chat/completions":
        assert target.partition("?")[0] == "/v1/chat/completions"
