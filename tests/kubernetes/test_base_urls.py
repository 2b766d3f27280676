"""Twin of sidecar/kubernetes/base_urls.py: an application's own base URL, through injections and back."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.test_objects import IMAGE, pod_of, workload

from sidecar.errors import InjectError
from sidecar.kubernetes.base_urls import former
from sidecar.kubernetes.objects import Request, Result, inject_all, uninject_all
from sidecar.kubernetes.options import REPLACED, Options
from sidecar.kubernetes.spec import value_of

CORPORATE = {"name": "OPENAI_BASE_URL", "value": "https://llm.corp/v1"}


def app(name: str, *env: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A container with these variables."""
    return {"name": name, "image": "app:1", **({"env": list(env)} if env else {}), **fields}


def deployment(*apps: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A Deployment of these containers; its grace period is long enough to stay."""
    metadata = {"annotations": {f"prompt-sidecar/{name.replace('_', '-')}": one for name, one in annotations.items()}}
    spec = {"containers": list(apps), "terminationGracePeriodSeconds": 90}
    return workload("Deployment", {"metadata": metadata if annotations else {}, "spec": spec})


def injected(document: object, **fields: Any) -> Result:
    """The result of an injection that sets the base URL."""
    (result,) = inject_all([document], Request(fields.pop("options", Options(IMAGE, app_env=True)), **fields))
    return result


def upstream(result: Result) -> str | None:
    """The upstream of the sidecar in it."""
    return value_of(pod_of(result.document)["spec"]["initContainers"][0], "SIDECAR__UPSTREAM__URL")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://llm.corp/v1", "https://llm.corp"),
        ("https://api.groq.com/openai/v1/", "https://api.groq.com/openai"),
        ("http://vllm.models:8000/v1", "http://vllm.models:8000"),
        ("http://localhost:11434/v1", "http://localhost:11434"),
    ],
)
def test_without_an_upstream_it_is_the_one_that_the_application_had(value: str, expected: str) -> None:
    """A line says so; injecting again, with or without the earlier choices, changes nothing."""
    before = deployment(app("shop", {**CORPORATE, "value": value}))
    result = injected(before)
    assert (result.state, upstream(result)) == ("injected", expected)
    assert result.notes == (f"shop: OPENAI_BASE_URL was {value}, which is now the sidecar's upstream",)
    assert injected(result.document).state == "unchanged"
    assert injected(result.document, kept=frozenset({"upstream", "app_env"})).state == "unchanged"
    (removed,) = uninject_all([result.document], {})
    assert (removed.document, "OPENAI_BASE_URL of shop is again what it was" in removed.reason) == (
        without_metadata(before),
        True,
    )


def test_an_init_container_is_led_to_the_sidecar_and_back() -> None:
    """The sidecar runs before it; one without a client's variables stays as it is."""
    before = deployment(app("shop"))
    prepared, plain = app("prep", CORPORATE), app("plain", {"name": "A", "value": "b"})
    pod_of(before)["spec"]["initContainers"] = [prepared, plain]
    result = injected(before)
    assert result.notes[0] == "prep: OPENAI_BASE_URL was https://llm.corp/v1, which is now the sidecar's upstream"
    _, led, same = pod_of(result.document)["spec"]["initContainers"]
    assert (value_of(led, "OPENAI_BASE_URL"), same) == ("http://127.0.0.1:8080/v1", plain)
    (removed,) = uninject_all([result.document], {})
    assert pod_of(removed.document)["spec"]["initContainers"] == [prepared, plain]


def test_a_key_that_goes_to_the_adopted_upstream_is_named() -> None:
    """The Secret may hold the key of another provider."""
    result = injected(deployment(app("shop", CORPORATE)), options=Options(app_env=True, secret="llm"))
    assert result.notes[1] == "shop: the key in the Secret llm is sent to https://llm.corp"


def without_metadata(document: dict[str, Any]) -> dict[str, Any]:
    """The object without an empty metadata of its pod."""
    pod = pod_of(document)
    return document if pod["metadata"] else {**document, "spec": {"template": {"spec": pod["spec"]}}}


def test_an_upstream_that_is_named_wins_and_the_line_names_what_it_replaces() -> None:
    """By option or by annotation; the former value comes back when the sidecar is removed."""
    before = deployment(app("shop", CORPORATE))
    options = Options(IMAGE, app_env=True, upstream="https://other.example")
    by_option = injected(before, options=options, is_upstream_named=True)
    by_annotation = injected(deployment(app("shop", CORPORATE), upstream_url="https://other.example"))
    words = "shop: OPENAI_BASE_URL was https://llm.corp/v1, its requests are now forwarded to https://other.example"
    for result in (by_option, by_annotation):
        assert (upstream(result), result.notes) == ("https://other.example", (words,))
        (removed,) = uninject_all([result.document], {})
        assert pod_of(removed.document)["spec"]["containers"] == [app("shop", CORPORATE)]  # type: ignore[arg-type]


FROM_ELSEWHERE = {"name": "OPENAI_BASE_URL", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}


@pytest.mark.parametrize(
    ("apps", "words"),
    [
        ([app("shop", FROM_ELSEWHERE)], "shop: OPENAI_BASE_URL comes from elsewhere (valueFrom)"),
        ([app("shop", {**CORPORATE, "value": "unix:///run/llm"})], "shop: OPENAI_BASE_URL is 'unix:///run/llm'"),
        ([app("shop", {**CORPORATE, "value": "https://$(HOST)/v1"})], "cannot be an upstream"),
        ([app("shop", {**CORPORATE, "value": "https://llm.corp/api"})], "up to /v1"),
        ([app("shop", {**CORPORATE, "value": "http://[/v1"})], "cannot be an upstream"),
        (
            [app("a", CORPORATE), app("b", {**CORPORATE, "value": "https://b/v1"})],
            "different values of OPENAI_BASE_URL (a https://llm.corp, b https://b)",
        ),
    ],
)
def test_where_no_single_upstream_is_meant_it_must_be_named(apps: list[dict[str, Any]], words: str) -> None:
    """The object fails with the container's name and the way; with an upstream it is injected, and given back."""
    result = injected(deployment(*apps))
    assert (result.state, result.document, words in result.reason) == ("failed", None, True), result.reason
    assert "--upstream" in result.reason
    done = injected(deployment(*apps), is_upstream_named=True)
    assert (done.state, len(done.notes)) == ("injected", len(apps))
    (removed,) = uninject_all([done.document], {})
    assert pod_of(removed.document)["spec"]["containers"] == apps  # type: ignore[arg-type]


def test_containers_whose_former_address_is_not_known_are_named() -> None:
    """One without the variable beside one with it, and one whose envFrom may hold it."""
    result = injected(deployment(app("a", CORPORATE), app("b")))
    assert result.notes[1] == "b: had no OPENAI_BASE_URL, its requests are forwarded to https://llm.corp, too"
    from_map = injected(deployment(app("a", envFrom=[{"configMapRef": {"name": "c"}}])))
    assert "a: if its envFrom sets OPENAI_BASE_URL" in from_map.notes[0]
    assert injected(deployment(app("a"))).notes == ()


def test_an_address_that_was_set_for_the_sidecar_is_no_upstream() -> None:
    """Otherwise the sidecar would forward to itself; a model on that port of the pod, if declared, is one."""
    by_hand = injected(deployment(app("a", {**CORPORATE, "value": "http://localhost:8080/v1"})))
    assert (upstream(by_hand), by_hand.notes) == ("https://api.openai.com", ())
    model = app("model", ports=[{"containerPort": 8080}])
    beside = injected(deployment(app("a", {**CORPORATE, "value": "http://localhost:8080/v1"}), model))
    assert upstream(beside) == "http://localhost:8080"


def test_without_app_env_the_former_address_comes_back() -> None:
    """And the annotation goes."""
    first = injected(deployment(app("shop", CORPORATE)))
    again = injected(first.document, options=Options(), kept=frozenset({"upstream"}))
    pod = pod_of(again.document)  # type: ignore[arg-type]
    assert (pod["spec"]["containers"], REPLACED in pod["metadata"]["annotations"]) == ([app("shop", CORPORATE)], False)


@pytest.mark.parametrize("kept", ["{", "[]", '{"a": 1}'])
def test_an_annotation_that_no_injection_wrote_is_an_error(kept: str) -> None:
    """Anyone may write annotations."""
    with pytest.raises(InjectError, match="replaced-base-urls"):
        former({"containers": []}, {REPLACED: kept}, 8080)
