"""Twin of sidecar/kubernetes/webhook.py: thirty AdmissionReviews over TLS, and a certificate renewed while it runs."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import ClientConnectorCertificateError, ClientSession, TCPConnector
from kubernetes.test_json_patch import applied
from kubernetes.test_objects import KINDS, POD, workload
from prometheus_client.parser import text_string_to_metric_families as parse

from sidecar.errors import ConfigError
from sidecar.kubernetes.objects import Request, inject
from sidecar.kubernetes.options import Options
from sidecar.kubernetes.webhook import Place, Webhook

OPTIONS = Options(secret="llm", app_env=True)
OPTED_IN = {"metadata": {"labels": {"prompt-sidecar/inject": "true"}}, "spec": POD["spec"]}


def opted_in(**changes: Any) -> dict[str, Any]:
    """A pod that asks for a sidecar, changed in its metadata (`labels`, `annotations`) or its specification."""
    pod = deepcopy(OPTED_IN)
    pod["metadata"] |= {name: changes.pop(name) for name in ("labels", "annotations") if name in changes}
    pod["spec"] |= changes
    return pod


INJECTED = inject(workload("Pod", OPTED_IN), OPTIONS)
PATCHED = {
    **{f"{kind} is made": (workload(kind, OPTED_IN), {}) for kind in KINDS},
    "a deployment is changed": (workload("Deployment", OPTED_IN), {"operation": "UPDATE"}),
    "asked by annotation": (workload("Pod", opted_in(labels={}, annotations={"prompt-sidecar/inject": "true"})), {}),
    "the object does not name its kind": ({**workload("Pod", OPTED_IN), "kind": None}, {"kind": {"kind": "Pod"}}),
    "another port is taken": (
        workload("Pod", opted_in(containers=[{"name": "a", "ports": [{"containerPort": 8080}]}])),
        {},
    ),
    "an older sidecar of ours": (inject(workload("Pod", OPTED_IN), Options(image="old:1")), {}),
    "its traffic redirected": (
        workload(
            "Pod", opted_in(annotations={"prompt-sidecar/redirect": "true", "prompt-sidecar/upstream-url": "http://m"})
        ),
        {},
    ),
    "a dry run": (workload("Pod", OPTED_IN), {"dryRun": True}),
}
UNTOUCHED = {
    "already injected": (INJECTED, {}),
    "nobody asked": (workload("Pod"), {}),
    "opted out": (workload("Pod", opted_in(annotations={"prompt-sidecar/inject": "false"})), {}),
    "made by hand": (workload("Pod", opted_in(initContainers=[{"name": "prompt-sidecar", "image": "mine"}])), {}),
    "our own namespace": (workload("Pod", OPTED_IN), {"namespace": "prompt-sidecar"}),
    "deleted": (None, {"operation": "DELETE"}),
    "a pod is changed": (workload("Pod", OPTED_IN), {"operation": "UPDATE"}),
    "no workload": ({"kind": "Service", "spec": {}}, {}),
}
HOSTILE = {
    "a file as upstream": opted_in(annotations={"prompt-sidecar/upstream-url": "file:///etc/passwd"}),
    "credentials in the upstream": opted_in(annotations={"prompt-sidecar/upstream-url": "https://a:b@c"}),
    "expansion in the upstream": opted_in(annotations={"prompt-sidecar/upstream-url": "https://$(SECRET)"}),
    "a path as secret": opted_in(annotations={"prompt-sidecar/upstream-secret": "../../token"}),
    "an image of one's own": opted_in(annotations={"prompt-sidecar/image": "evil:1"}),
    "a number as annotation": opted_in(annotations={"prompt-sidecar/app-env": 1}),
    "TLS redirected": opted_in(annotations={"prompt-sidecar/redirect": "true"}),
    "the node's network": opted_in(hostNetwork=True),
    "containers that are text": opted_in(containers="many"),
    "a very long name": opted_in(annotations={"prompt-sidecar/policies": "x" * 100_000}),
}


def review(subject: Any, **fields: Any) -> dict[str, Any]:
    """What the API server sends."""
    request = {"uid": "u-1", "operation": "CREATE", "namespace": "default", "object": subject, **fields}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


class Server:
    """A running webhook with a certificate of an authority of its own."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder / "tls.crt", folder / "tls.key", "127.0.0.1", 0, 0)
        self.webhook = Webhook(self.place, Request(OPTIONS, default=False), own_namespace="prompt-sidecar")
        self.trusted = self.renew()

    def renew(self) -> ssl.SSLContext:
        """A certificate of a new authority in the files; what a client needs to trust it."""
        authority = trustme.CA()
        issued = authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(str(self.place.key))
        issued.cert_chain_pems[0].write_to_path(str(self.place.certificate))
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    async def rejected(self) -> float:
        """The gauge of a certificate that cannot be used, as Prometheus scrapes it."""
        url = f"http://127.0.0.1:{self.webhook.health_port}/metrics"
        async with ClientSession() as session, session.get(url) as answer:
            families = {family.name: family for family in parse(await answer.text())}
        return families["sidecar_webhook_certificate_rejected"].samples[0].value

    async def until_rejected(self, value: float) -> None:
        """Wait for this value of the gauge."""
        async with asyncio.timeout(60):
            while await self.rejected() != value:  # noqa: ASYNC110 - another task changes it
                await asyncio.sleep(0.05)

    async def ask(self, body: object, trusted: ssl.SSLContext | None = None) -> tuple[int, Any]:
        """One review, on a connection of its own."""
        url = f"https://localhost:{self.webhook.port}/mutate"
        async with (
            ClientSession(connector=TCPConnector(ssl=trusted or self.trusted)) as session,
            session.post(url, data=io.BytesIO(json.dumps(body).encode())) as answer,
        ):
            return answer.status, await answer.json()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A webhook on loopback."""
    webhook_server = Server(tmp_path)
    async with webhook_server.webhook:
        yield webhook_server


@pytest.mark.parametrize("name", PATCHED)
async def test_who_asks_gets_the_patch_that_inject_makes(server: Server, name: str) -> None:
    """Applied to the object, the patch gives what `sidecar inject` gives."""
    subject, fields = PATCHED[name]
    status, body = await server.ask(review(subject, **fields))
    response = body["response"]
    assert (status, response["uid"], response["allowed"], response["patchType"]) == (200, "u-1", True, "JSONPatch")
    patch = json.loads(base64.b64decode(response["patch"]))
    named = {**subject, "kind": subject["kind"] or "Pod"}
    assert applied(deepcopy(named), patch) == inject(named, OPTIONS)


@pytest.mark.parametrize("name", UNTOUCHED)
async def test_who_does_not_ask_passes_untouched(server: Server, name: str) -> None:
    """Allowed, without a patch."""
    subject, fields = UNTOUCHED[name]
    assert await server.ask(review(subject, **fields)) == (
        200,
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": "u-1", "allowed": True},
        },
    )


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_cannot_be_had_is_refused_with_a_reason(server: Server, name: str) -> None:
    """The pod is not made; who made it reads why, in a message of readable length."""
    _, body = await server.ask(review(workload("Pod", HOSTILE[name])))
    response = body["response"]
    assert (response["allowed"], response["status"]["code"], "patch" in response) == (False, 422, False)
    assert 20 < len(response["status"]["message"]) < 500


async def test_a_base_url_that_is_replaced_is_a_warning_of_the_response(server: Server) -> None:
    """It is shown to the operator who creates the pod; the patch forwards to where the requests went before."""
    env = [{"name": "OPENAI_BASE_URL", "value": "https://llm.corp/v1"}]
    subject = workload("Pod", opted_in(containers=[{"name": "shop", "env": env}]))
    response = (await server.ask(review(subject)))[1]["response"]
    words = "prompt-sidecar: shop: OPENAI_BASE_URL was https://llm.corp/v1, which is now the sidecar's upstream"
    assert response["warnings"][0] == words
    assert b"https://llm.corp" in base64.b64decode(response["patch"])
    elsewhere = [{"name": "OPENAI_BASE_URL", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
    refused = (await server.ask(review(workload("Pod", opted_in(containers=[{"name": "a", "env": elsewhere}])))))[1]
    assert (refused["response"]["allowed"], "upstream-url" in str(refused)) == (False, True)


def test_there_are_thirty_cases() -> None:
    """At least the number that was promised."""
    assert len(PATCHED) + len(UNTOUCHED) + len(HOSTILE) >= 30


async def test_nonsense_and_floods_are_refused(server: Server) -> None:
    """400 for what is no review, 413 beyond the bound; the next review is answered."""
    assert (await server.ask({"apiVersion": "v1"}))[0] == 400
    assert (await server.ask(review({"kind": "Pod", "filler": "x" * 5_000_000})))[0] == 413
    assert (await server.ask(review(workload("Pod"))))[0] == 200


async def test_a_renewed_certificate_is_served_without_a_restart(server: Server) -> None:
    """New connections see the new one. A pair that does not fit is refused, as a gauge says; the last good stays."""
    old, new = server.trusted, server.renew()
    async with asyncio.timeout(60):
        while True:
            try:
                await server.ask(review(None), new)
                break
            except ClientConnectorCertificateError:
                await asyncio.sleep(0.05)
    with pytest.raises(ClientConnectorCertificateError):
        await server.ask(review(None), old)
    assert await server.rejected() == 0
    server.place.key.write_text("no key", "utf-8")
    await server.until_rejected(1)
    assert (await server.ask(review(None), new))[0] == 200
    server.renew()
    await server.until_rejected(0)


async def test_health_is_plain_and_a_missing_certificate_ends_the_start(server: Server, tmp_path: Path) -> None:
    """Probes need no TLS; without a certificate nothing listens."""
    async with (
        ClientSession() as session,
        session.get(f"http://127.0.0.1:{server.webhook.health_port}/health") as response,
    ):
        assert response.status == 200
    with pytest.raises(ConfigError, match="absent"):
        async with Webhook(Place(tmp_path / "absent", tmp_path / "absent"), Request(OPTIONS)):
            pass
