"""Every kind of hostile request once, against a real process; and the memory limit of the load benchmark."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from recording import recording, respond
from support import RULES_ONLY, SidecarProcess

from benchmarks.hostile.bodies import chat, http
from benchmarks.hostile.generators import BOTH, GENERATORS, with_key
from benchmarks.hostile.memory_limit import memory_limit
from benchmarks.hostile.process import send
from benchmarks.hostile.second.blocks import ATTACKS
from benchmarks.hostile.texts import ATTACK

pytestmark = pytest.mark.slow
SIZE, AT_ONCE = 3_000, 8
ANSWERS = {100, 101, 200, 400, 408, 413, 415, 422, 426, 431, 502, 503}
MIB = 2**20


def request(name: str) -> bytes:
    """A request of this kind, the same each time."""
    return BOTH[name].make(Random(1), SIZE)  # noqa: S311 - no secret


def with_attacks(bodies: Iterable[bytes]) -> list[bytes]:
    """The bodies that hold an attack as it is."""
    return [body for body in bodies if any(attack.encode() in body for attack in (ATTACK, *ATTACKS))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("generator", ["first", "second"])
async def test_no_kind_of_hostile_request_ends_the_process(tmp_path: Path, generator: str) -> None:
    """Each kind is answered without an internal error, no plain attack is forwarded, and the process still scans."""
    kinds = GENERATORS[generator]
    async with recording(respond(b"{}")) as upstream:
        settings = {**RULES_ONLY, "upstream": {"url": upstream.url}, "inline": {"websockets": True}}
        server = await asyncio.to_thread(SidecarProcess(tmp_path, settings).start)
        key = (await asyncio.to_thread(server.new_key))["key"]
        sent, statuses = iter(kinds), Counter[tuple[str, int]]()

        async def client() -> None:
            for name in sent:
                reply = await send(server.port, with_key(request(name), key))
                statuses.update((name, status) for status in reply.statuses or (0,))

        await asyncio.gather(*(client() for _ in range(AT_ONCE)))
        assert {name for name, _ in statuses} == set(kinds)
        assert [wrong for wrong in statuses if wrong[1] not in ANSWERS] == []
        assert with_attacks(upstream.bodies) == []
        assert (await send(server.port, http(chat("How far is the moon?")))).statuses == (200,)
        assert (await send(server.port, http(chat(ATTACK)))).statuses == (400,)
    assert await asyncio.to_thread(server.stop) == 0
    assert "Traceback" not in server.output


@pytest.mark.parametrize("name", list(BOTH))
def test_a_kind_is_bounded_and_repeatable(name: str) -> None:
    """A kind gives the same request each time, at most six times the size and a head."""
    assert request(name) == request(name)
    assert len(request(name)) < 6 * SIZE + 500


def test_a_process_under_a_memory_limit_cannot_exceed_it() -> None:
    """What needs more memory than the limit fails, what needs less does not."""
    with memory_limit(256 * MIB) as limit:
        codes = [
            subprocess.run(
                limit.command([sys.executable, "-c", f"bytearray({size * MIB})[::4096]"]),
                check=False,
                capture_output=True,
            ).returncode
            for size in (32, 512)
        ]
    assert (codes[0], codes[1] != 0) == (0, True)
