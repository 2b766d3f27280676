"""A thousand scans at once with ten keys, at four real sidecars that share one PostgreSQL and one Redis.

Two runs: all scans at once, where each key has its burst and almost no refill; and steady load above the rate, where
the limit is the refill of that time. Clients count the scans that were admitted, the store their rows. The exit code
is 1 if a key was admitted more than 1 % beyond its limit, or if a row is missing.

    python -m benchmarks.fleet [--scans 1000] [--seconds 20] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import servers
from support import SidecarProcess

from sidecar.auth.api_keys import ApiKey, KeyRing
from sidecar.config import Auth
from sidecar.storage import Filter, Store
from sidecar.util.units import Rate

PROCESSES, KEYS, BURST = 4, 10, 60
ALLOWANCE = 1.01
SLOW, STEADY = Rate(1, 3600.0), Rate(300, 60.0)
BODY = {"prompt": "What is the capital of France?"}


@dataclass
class Fleet:
    """Sidecars, their store, and a client."""

    bases: list[str]
    admins: list[str]
    store: Store
    ring: KeyRing
    session: aiohttp.ClientSession

    async def keys(self, name: str, rate: Rate) -> list[tuple[ApiKey, str]]:
        """Ten new keys, each with its own limit."""
        return [await self.ring.create(f"{name} {n}", rate=rate, burst=BURST) for n in range(KEYS)]

    async def scan(self, number: int, value: str) -> int:
        """One scan at the next sidecar in turn; returns its status."""
        url = f"{self.bases[number % len(self.bases)]}/api/v1/prompt/scan"
        async with self.session.post(url, json=BODY, headers={"X-API-Key": value}) as answer:
            await answer.read()
            return answer.status

    async def limited_alone(self) -> int:
        """Requests that a process limited locally because Redis answered too late."""
        total = 0.0
        for admin in self.admins:
            async with self.session.get(f"{admin}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            total += sum(float(line.split()[1]) for line in lines if line.startswith("sidecar_limits_local_total"))
        return int(total)

    async def rows(self, key: ApiKey, expected: int) -> int:
        """Number of stored decisions of the key, once all are stored or after ten seconds."""
        deadline = time.monotonic() + 10
        while (count := await self.store.decisions.count(Filter(key_id=key.id))) < expected:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
        return count


@contextmanager
def processes(store: str, limits: str) -> Iterator[list[SidecarProcess]]:
    """Real sidecars with the rules layer alone, each in its own folder."""
    settings = {"store": {"url": store}, "limits": {"url": limits}, "layers": {"semantic": {"enabled": False}}}
    with ExitStack() as stack:
        started = []
        for _ in range(PROCESSES):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            started.append(SidecarProcess(folder, settings, ("--no-first-key",)).start())
            stack.callback(started[-1].stop)
        yield started


async def at_once(fleet: Fleet, scans: int) -> dict[str, object]:
    """Send all scans at once."""
    keys, begun = await fleet.keys("burst", SLOW), time.monotonic()
    order = [n % KEYS for n in range(scans)]
    statuses = await asyncio.gather(*(fleet.scan(n // KEYS, keys[which][1]) for n, which in enumerate(order)))
    return await _report(fleet, keys, list(zip(order, statuses, strict=True)), SLOW, time.monotonic() - begun)


async def steady(fleet: Fleet, seconds: float) -> dict[str, object]:
    """Four clients per key send scans without a pause for `seconds`."""
    keys, begun = await fleet.keys("steady", STEADY), time.monotonic()
    counts: list[tuple[int, int]] = []

    async def client(which: int, place: int) -> None:
        while time.monotonic() - begun < seconds:
            status = await fleet.scan(place, keys[which][1])
            counts.append((which, status))
            await asyncio.sleep(0.2 if status == 429 else 0)

    await asyncio.gather(*(client(which, place) for which in range(KEYS) for place in range(PROCESSES)))
    return await _report(fleet, keys, counts, STEADY, time.monotonic() - begun)


async def _report(
    fleet: Fleet, keys: list[tuple[ApiKey, str]], counts: list[tuple[int, int]], rate: Rate, took: float
) -> dict[str, object]:
    """Admitted scans compared with the limit, and the number of missing rows."""
    passed = Counter(which for which, status in counts if status == 200)
    most = BURST + rate.requests * took / rate.period
    lost = sum([passed[n] - await fleet.rows(key, passed[n]) for n, (key, _) in enumerate(keys)])
    return {
        "scans": len(counts),
        "statuses": {str(status): count for status, count in sorted(Counter(status for _, status in counts).items())},
        "seconds": round(took, 2),
        "allowed per key at most": round(most, 1),
        "passed per key": [passed[n] for n in range(KEYS)],
        "worst over limit": round(max(passed.values()) / most, 4),
        "limited alone": await fleet.limited_alone(),
        "rows lost": lost,
    }


async def measure(scans: int, seconds: float) -> dict[str, dict[str, object]]:
    """Both runs, each on new servers."""
    with servers.postgresql() as postgres, servers.redis() as redis:
        url = postgres.new_database()
        with processes(url, redis.url) as replicas:
            store = await Store.open(url)
            timeout, connector = aiohttp.ClientTimeout(total=120), aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
                bases, admins = [replica.base for replica in replicas], [replica.admin for replica in replicas]
                fleet = Fleet(bases, admins, store, KeyRing(store, Auth()), session)
                figures = {"at once": await at_once(fleet, scans), "steady": await steady(fleet, seconds)}
            await store.close()
    return figures


def main() -> None:
    """Measure and print; exit code 1 if a limit or the row count is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scans", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    runs = asyncio.run(measure(arguments.scans, arguments.seconds))
    if arguments.json:
        print(json.dumps(runs, indent=2))
    else:
        for name, figures in runs.items():
            print(name, *(f"  {what}: {figure}" for what, figure in figures.items()), sep="\n")
    passed = [run["rows lost"] == 0 and float(str(run["worst over limit"])) <= ALLOWANCE for run in runs.values()]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
