"""The client of the benchmark: requests on persistent connections with little overhead; every response is checked."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import orjson

TIMEOUT = 120.0
SENTENCES = (
    "The committee met on Tuesday to discuss the new library near the station.",
    "Several people asked about the opening hours in winter and on public holidays.",
    "The architect explained how light falls through the northern windows.",
    "After lunch we walked along the river and bought bread, cheese and plums.",
    "Our supplier in Porto has raised the price of cork for the third time this year.",
    "Could you summarise the minutes in four sentences and name the open points?",
    "The train to the coast leaves at noon, and the ferry waits for it.",
    "My neighbour grows tomatoes on the balcony and shares them with the whole house.",
    "Which of these two drafts is easier to read for somebody who is new to the subject?",
    "The orchestra rehearses in the old brewery until the concert hall is repaired.",
    "In the second quarter the northern branch delivered later than planned.",
    "Please compare both offers by price, weight and time of delivery.",
    "A short walk before breakfast has done more for my back than any medicine.",
    "The museum shows maps of the harbour from the seventeenth century.",
    "We need a friendly closing line for a letter to a customer who waited too long.",
    "The river froze twice in the last ten years, each time in February.",
)
_STAMP = re.compile(rb"@(\d+)@")


def prompt(size: int, seed: int) -> str:
    """Ordinary sentences, `size` characters, different for each seed so that no cache is hit."""
    chooser, parts, length = random.Random(seed), [f"Note {seed}."], 0
    while length < size:
        parts.append(chooser.choice(SENTENCES))
        length += len(parts[-1]) + 1
    return " ".join(parts)[:size]


def post(path: str, body: object, key: str = "") -> bytes:
    """The bytes of a POST request."""
    data = orjson.dumps(body)
    auth = f"X-API-Key: {key}\r\n" if key else ""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{auth}Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def chat(size: int, seed: int, /, **fields: object) -> bytes:
    """A chat with one message of `size` characters."""
    messages = [{"role": "user", "content": prompt(size, seed)}]
    return post("/v1/chat/completions", {"model": "m", "messages": messages, **fields})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response with its times: seconds since the request was sent, and delays of timestamped chunks."""

    status: int
    body: bytes
    first: float
    whole: float
    delays: Sequence[float] = field(default=())
    arrivals: Sequence[float] = field(default=())


class Tally:
    """Chats that were sent and answered with 200: what the upstream must have received."""

    requests = 0
    body_bytes = 0


class Connection:
    """One persistent connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Connection:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        self._writer.close()

    async def ask(self, request: bytes) -> Answer:
        """Send a request and read the response to its end."""
        answer = await self._ask(request)
        if answer.status == 200 and request.startswith(b"POST /v1/"):
            Tally.requests += 1
            Tally.body_bytes += len(request) - request.index(b"\r\n\r\n") - 4
        return answer

    async def _ask(self, request: bytes) -> Answer:
        async with asyncio.timeout(TIMEOUT):
            begun = time.perf_counter()
            self._writer.write(request)
            head = await self._reader.readuntil(b"\r\n\r\n")
            first = time.perf_counter() - begun
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            if length:
                body = await self._reader.readexactly(int(length[1]))
                return Answer(int(head[9:12]), body, first, time.perf_counter() - begun)
            return await self._streamed(int(head[9:12]), begun)

    async def _streamed(self, status: int, begun: float) -> Answer:
        """Read chunks as they arrive; their timestamps say when they were sent."""
        data, parsed, first = b"", 0, 0.0
        delays, arrivals = list[float](), list[float]()
        while not data.endswith(b"0\r\n\r\n"):
            chunk = await self._reader.read(65_536)
            if not chunk:
                raise SystemExit("a stream was cut")
            now, data = time.monotonic_ns(), data + chunk
            first = first or time.perf_counter() - begun
            for stamp in _STAMP.finditer(data, parsed):
                parsed = stamp.end()
                delays.append((now - int(stamp[1])) / 1e9)
                arrivals.append(now / 1e9)
        return Answer(status, data, first, time.perf_counter() - begun, delays, arrivals)


async def one_by_one(port: int, requests: Sequence[bytes]) -> list[Answer]:
    """Send requests sequentially on one connection."""
    async with Connection(port) as connection:
        return [await connection.ask(request) for request in requests]


async def at_once(port: int, requests: Sequence[bytes], clients: int) -> tuple[list[Answer], float]:
    """Send with this many concurrent clients; also returns the total seconds. A starved client is an error."""
    waiting, answers = list(reversed(requests)), list[Answer]()
    served = [0] * clients

    async def client(number: int) -> None:
        async with Connection(port) as connection:
            while waiting:
                answers.append(await connection.ask(waiting.pop()))
                served[number] += 1

    begun = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    taken = time.perf_counter() - begun
    if len(requests) >= 8 * clients and min(served) == 0:
        raise SystemExit(f"port {port}: a client was starved")
    return answers, taken


def checked(name: str, answers: Sequence[Answer], right: Callable[[Answer], bool]) -> None:
    """Raise if a response is wrong: figures of a faulty run are not reported."""
    wrong = [answer for answer in answers if not right(answer)]
    if wrong:
        raise SystemExit(f"{name}: {len(wrong)} wrong answers, such as {wrong[0].status} {wrong[0].body[:300]!r}")
