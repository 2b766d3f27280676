"""Failure matrix, rows of layers that raise or exceed their timeout; closed and open, both endpoints.

The layers are real ones with an encoder that fails on demand, and one that always raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import aiohttp
import pytest
import tiny_model
from aiohttp import web
from chaos.world import ANSWER, ATTACK, POLICY, World, audit, settings
from recording import Recording, recording, respond
from tiny_model import TinyEncoder

from sidecar import config, limits, policy, upstream
from sidecar.api.scan import ScanApi
from sidecar.auth.api_keys import KeyRing
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.detectors.semantic.artifact import ModelArtifact
from sidecar.detectors.semantic.batcher import Batcher
from sidecar.detectors.semantic.cascade import CascadeScorer
from sidecar.detectors.semantic.layer import SemanticLayer
from sidecar.detectors.semantic.nearest_neighbours import NearestNeighbours
from sidecar.detectors.semantic.topics import Topics
from sidecar.proxy.handler import Proxy
from sidecar.scan.engine import Engine, EngineConfig, Stage
from sidecar.server.middleware import Gatekeeper, error_boundary
from sidecar.server.server import Site
from sidecar.storage import Store
from sidecar.types import Action, Finding, LayerName, LayerReport, ScanRequest
from sidecar.util.bulkhead import Bulkhead

Policy = Literal["block", "skip"]


class Raising:
    """A layer with a bug, whose error quotes the prompt."""

    name = LayerName.RULES

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Raise."""
        raise ValueError(request.segments[0].text)


def rules(folder: Path) -> RulesLayer:
    """The rules layer with one rule."""
    (folder / "policy.yaml").write_text(POLICY, "utf-8")
    return RulesLayer(policy.load([folder / "policy.yaml"]))


def semantic(*, broken: bool = False, pause: float = 0.0) -> SemanticLayer:
    """The semantic layer with an encoder that raises or is slow."""
    encoder = TinyEncoder(pause=pause)
    manifest = tiny_model.manifest(similar_from=0.9)
    rules = NearestNeighbours((), encoder, manifest), Topics((), encoder, manifest)
    encoder.broken = broken
    reader = Batcher(CascadeScorer(encoder, tiny_model.head()))
    return SemanticLayer(ModelArtifact(Path(), manifest, tiny_model.head()), reader, *rules)


@asynccontextmanager
async def doors(
    folder: Path, forward_to: Recording, engine_config: EngineConfig, *stages: Stage
) -> AsyncIterator[World]:
    """Both doors over these layers, with real keys, journal and store."""
    configured = settings(folder, forward_to.url)
    store = await Store.open(configured.store.url)
    keyring, decision_log = KeyRing(store, configured.auth), DecisionLog(store, configured.store, config.Log())
    await decision_log.start()
    engine = Engine(stages, engine_config, Bulkhead(8, 8))
    gatekeeper = Gatekeeper(keyring, limits.MemoryLimiter(), configured)
    forward = await upstream.open(configured.upstream)
    app = web.Application(middlewares=[error_boundary()])
    app.add_routes(ScanApi(engine, decision_log, gatekeeper, configured).routes())
    app.router.add_route("*", "/{tail:.*}", Proxy(engine, decision_log, forward, configured, gatekeeper).handle)
    site = Site(app, configured.limits, 1)
    port = await site.listen("127.0.0.1", 0)
    _, key = await keyring.create("doors")
    try:
        async with aiohttp.ClientSession() as session:
            yield World(f"http://127.0.0.1:{port}", session, key)
    finally:
        await site.close()
        for part in (forward, decision_log, keyring, store):
            await part.close()


@pytest.mark.parametrize("policy", ["block", "skip"])
@pytest.mark.parametrize("trouble", ["rules raise", "semantic raises", "semantic overruns"])
async def test_a_layer_that_fails_beside_one_that_answers(
    tmp_path: Path, trouble: str, policy: Policy, capfd: pytest.CaptureFixture[str]
) -> None:
    """Closed is 503 at both endpoints and nothing is forwarded; open, the other layer decides, and still blocks."""
    good, slow = rules(tmp_path), semantic(pause=1.0)
    bad = {"rules raise": Raising(), "semantic raises": semantic(broken=True), "semantic overruns": slow}[trouble]
    engine_config = EngineConfig(deadline=0.4)
    async with (
        recording(respond(ANSWER)) as far,
        doors(tmp_path, far, engine_config, Stage(good), Stage(bad, policy)) as here,
    ):
        replies = await asyncio.gather(here.inline(), here.scan())
        assert [reply.status for reply in replies] == ([503, 503] if policy == "block" else [200, 200])
        assert [reply.unscanned for reply in replies] == [None, None]
        attack = await here.inline(ATTACK)
        assert attack.status == (503 if policy == "block" else 400)
        assert len(far.bodies) == (0 if policy == "block" else 1)
        # A cancelled scan still runs in its thread; the next test must not wait for it.
        slow._batcher._scorer.encoder.pause = 0.0
        for layer in (bad, slow):
            if isinstance(layer, SemanticLayer):
                await layer.close()
    assert await audit(f"sqlite:///{tmp_path}/sidecar.db", far) == []
    assert "How long do I boil" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(("last", "status"), [(Action.BLOCK, 503), (Action.ALLOW, 200)])
async def test_no_layer_answers(tmp_path: Path, last: Action, status: int) -> None:
    """All layers fail and are skipped: `failure.all` decides; both endpoints mark what is forwarded unscanned."""
    broken = semantic(broken=True)
    stages = Stage(Raising(), "skip"), Stage(broken, "skip")
    async with (
        recording(respond(ANSWER)) as far,
        doors(tmp_path, far, EngineConfig(all_failed=last), *stages) as here,
    ):
        inline, scan = await here.inline(), await here.scan()
        await broken.close()
    assert (inline.status, scan.status) == (status, status)
    unseen = await audit(f"sqlite:///{tmp_path}/sidecar.db", far)
    if status == 503:
        assert (unseen, far.bodies) == ([], [])
    else:
        assert (inline.unscanned, scan.unscanned) == ("error", "error")
        assert len(unseen) == len(far.bodies) == 1
