"""Failure matrix, rows of the dependencies: upstream, key store, scan log and Redis behind bad links; both endpoints.

Upstream failures have the same result closed and open. Authentication never fails open, and neither log nor Redis
stops traffic; to show this, the rows run with every failure mode set to open.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import servers
from chaos.world import ANSWER, ATTACK, World, audit, patiently, settings, world
from faults import GARBAGE, HALF_OPEN, NO_FAULT, REFUSE, Fault, link
from recording import recording, respond, stream
from yarl import URL

from sidecar.observability.metrics import LIMITS_LOCAL, LOG_DROPPED

OPEN = {"rules": "skip", "llm_judge": "skip", "semantic": "skip", "all": "allow", "overload": "allow"}
INPUT = dict.fromkeys(("oversize", "malformed", "encoding", "media", "token_ids", "reference"), "allow")
EVERYTHING_OPEN = {**OPEN, "input": INPUT, "unknown_route": "allow"}
DEAD = {"refused": REFUSE, "reset": Fault("reset"), "closed": Fault("cut"), "garbage": GARBAGE, "half open": HALF_OPEN}
EVENT = b'data: {"id":"1","choices":[]}\n\n'


def through(url: str, port: int) -> str:
    """The same URL through the link."""
    return url.replace(f":{URL(url).port}/", f":{port}/")


@pytest.mark.parametrize("failure", [{}, EVERYTHING_OPEN], ids=["closed", "open"])
async def test_an_upstream_behind_a_bad_link(tmp_path: Path, failure: dict[str, Any]) -> None:
    """Unreachable is 502, silent is 504, in any failure mode; the scan API is unaffected; all text was scanned."""
    expected = {
        "refused": (REFUSE, 502),
        "reset": (Fault("reset"), 502),
        "reset in the head": (Fault("reset", after=20), 502),
        "closed": (Fault("cut"), 502),
        "request cut": (Fault("cut", after=80, way="up"), 502),
        "garbage": (GARBAGE, 502),
        "half open": (HALF_OPEN, 504),
        "dripping head": (Fault("drip", pause=0.05), 504),
        "late": (Fault("latency", pause=3), 504),
    }
    async with recording(respond(ANSWER)) as upstream, link(upstream.port) as wire:
        configured = settings(tmp_path, wire.url, failure=failure)
        async with world(configured) as here:
            for name, (fault, status) in expected.items():
                await wire.set(fault)
                inline, scan = await asyncio.gather(here.inline(), here.scan())
                assert (name, inline.status, scan.status) == (name, status, 200)
                assert inline.json["error"]["code"] == "upstream_error"
                assert (await here.inline(ATTACK)).status == 400, name
                await wire.set(NO_FAULT)
                assert (await here.inline()).status == 200, f"{name}: not over when the fault was"
        assert await audit(configured.store.url, upstream) == []


@pytest.mark.parametrize("kind", ["reset", "cut", "stall"])
async def test_a_stream_on_a_link_that_fails_half_way(tmp_path: Path, kind: Any) -> None:
    """The client gets complete events, then an error event, then an abrupt end; never a clean one."""
    events = stream([EVENT] * 200, pause=0.002)
    async with recording(events) as upstream, link(upstream.port) as wire:
        configured = settings(tmp_path, wire.url)
        async with world(configured) as here:
            await wire.set(Fault(kind, after=1000))
            body, ended = b"", "clean"
            request = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
            async with here.session.post(f"{here.base}/v1/chat/completions", json=request) as answer:
                try:
                    async for chunk in answer.content.iter_any():
                        body += chunk
                except aiohttp.ClientError:
                    ended = "dirty"
        assert ended == "dirty"
        assert body.count(EVENT) > 3
        assert b'"error"' in body.split(b"\n\n")[-2]
        assert await audit(configured.store.url, upstream) == []


@pytest.mark.parametrize("name", DEAD)
async def test_a_key_store_behind_a_bad_link(tmp_path: Path, postgres: servers.PostgreSql, name: str) -> None:
    """Even if all is open: 503 at both endpoints for a key that is not cached, and traffic without a key continues.

    Decisions of that time are logged once the store is back: none is dropped.
    """
    url = postgres.new_database()
    async with recording(respond(ANSWER)) as upstream, link(postgres.port) as wire:
        store = {"url": through(url, wire.port), "flush": 0.05}
        configured = settings(tmp_path, upstream.url, store=store, auth={"cache": "0ms"}, failure=EVERYTHING_OPEN)
        async with world(configured) as here:
            assert (await here.scan()).status == 200
            dropped = LOG_DROPPED._value.get()
            await wire.set(DEAD[name])
            await key_cannot_be_checked(here)
            for _ in range(5):
                assert (await here.inline()).status == 200
            assert (await here.inline(ATTACK)).status == 400
            await wire.set(NO_FAULT)
            await patiently(lambda: answers(here), 20)
            assert LOG_DROPPED._value.get() == dropped
        assert await audit(url, upstream) == []
        assert len(upstream.bodies) >= 5


async def key_cannot_be_checked(here: World) -> None:
    """Check that both endpoints refuse a key that cannot be verified."""
    begun = time.monotonic()
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    keyed = here.post("/v1/chat/completions", body, **{"X-API-Key": here.key})
    replies = await asyncio.gather(here.scan(), keyed)
    assert [reply.status for reply in replies] == [503, 503], [reply.body for reply in replies]
    assert list(replies[0].json) == ["detail"]
    assert replies[1].json["error"]["code"] == "scanner_unavailable"
    assert time.monotonic() - begun < 15


async def answers(here: World) -> bool:
    """Whether the scan API scans."""
    return (await here.scan()).status == 200


@pytest.mark.parametrize("name", DEAD)
async def test_redis_behind_a_bad_link(tmp_path: Path, redis: servers.RedisServer, name: str) -> None:
    """Limits and cache fall back to this process, which is counted; no request fails or is forwarded unscanned."""
    redis.ask("FLUSHALL")  # the server of the whole session holds the limits of other tests, too
    async with recording(respond(ANSWER)) as upstream, link(redis.port) as wire:
        url = through(redis.url, wire.port)
        limits = {"url": url, "rate": "1/hour", "burst": 5_000}
        configured = settings(tmp_path, upstream.url, limits=limits, cache={"url": url})
        async with world(configured) as here:
            assert (await here.scan()).status == 200
            counted = LIMITS_LOCAL._value.get()
            await wire.set(DEAD[name])
            for _ in range(3):
                assert {(await here.inline()).status, (await here.scan()).status} == {200}, name
            assert (await here.inline(ATTACK)).status == 400
            assert LIMITS_LOCAL._value.get() > counted
            begun = time.monotonic()
            await here.scan()
            assert time.monotonic() - begun < 3
            await wire.set(NO_FAULT)
            assert (await here.scan()).status == 200
        assert await audit(configured.store.url, upstream) == []
