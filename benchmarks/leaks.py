"""Measures `responses: block`: leaks caught, false positives, and the time to the first word of a stream.

Starts an upstream with prepared answers and two sidecars (`responses: off` and `block`, rules alone) as
real processes on loopback. Every case is requested whole and as a stream; an answer counts as caught if it was
withheld. The time to the first word is measured on a stream of a given pace, in interleaved rounds.

    python -m benchmarks.leaks [--ordinary ROWS.jsonl.gz] [--rounds 7] [--pace 0.02] [--hold 160] [--json]

`--ordinary`: more answers that must pass, from the `text` of rows with `benign: true` of such a file.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from benchmarks.answer_cases import Case, conversations, secrets
from benchmarks.leak_cases import leaks, ordinary
from benchmarks.proxy import free_port, wait_for

PIECE = 4
"""Characters of one event, about a token."""
TALK = "The ferry leaves at nine and arrives before noon, if the wind allows it. " * 8
LONGEST = 4000
"""Maximum characters of a text from a file: the upstream receives its answer in a request header."""
USER = "Hello, please go on."
"""An unremarkable message, where a case has none of its own."""


def chunk(text: str) -> bytes:
    """One event of a streamed chat completion."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


async def upstream(port: int) -> None:
    """Answers with the text in the header `x-say`, one piece every `x-pace` seconds."""

    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text, pace = json.loads(request.headers["x-say"]), float(request.headers.get("x-pace", "0"))
        if not body.get("stream"):
            message = {"role": "assistant", "content": text}
            return web.json_response({"id": "c", "choices": [{"index": 0, "message": message}]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionError):  # the sidecar stops reading an answer that it withholds
            for start in range(0, len(text), PIECE):
                await asyncio.sleep(pace)
                await response.write(chunk(text[start : start + PIECE]))
            await response.write(b"data: [DONE]\n\n")
        return response

    async def up(_request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/up", up)
    runner = web.AppRunner(app, max_field_size=2**20, max_line_size=2**20)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


@asynccontextmanager
async def running(hold: int) -> AsyncIterator[dict[str, str]]:
    """Runs the processes; yields their base URLs by name."""
    ports = {name: free_port() for name in ("direct", "off", "block")}
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    with tempfile.TemporaryDirectory() as folder:
        processes = [start_upstream(ports["direct"])]
        processes += [start(name, ports[name], urls["direct"], Path(folder), hold) for name in ("off", "block")]
        try:
            async with aiohttp.ClientSession() as session:
                await wait_for(session, f"{urls['direct']}/up")
                for name in ("off", "block"):
                    await wait_for(session, f"{urls[name]}/health")
            yield urls
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=30)


def start_upstream(port: int) -> subprocess.Popen[bytes]:
    """The upstream in a separate process."""
    return subprocess.Popen([sys.executable, "-m", "benchmarks.leaks", "--serve", str(port)])


def start(name: str, port: int, to: str, folder: Path, hold: int) -> subprocess.Popen[bytes]:
    """A sidecar with `responses: name` in a separate process, in front of the upstream `to`."""
    settings = {
        "LISTEN__PORT": port,
        "ADMIN__PORT": 0,
        "UPSTREAM__URL": to,
        "LAYERS__SEMANTIC__ENABLED": "false",
        "STORE__URL": f"sqlite:///{folder}/{port}.db",
        "LOG__LEVEL": "error",
        "RESPONSES": name,
        "ANSWERS__HOLD": hold,
    }
    environment = {**os.environ, **{f"SIDECAR__{key}": str(value) for key, value in settings.items()}}
    log = (folder / f"{name}.log").open("wb")
    serve = [sys.executable, "-m", "sidecar", "serve"]
    return subprocess.Popen(serve, cwd=folder, env=environment, stdout=log, stderr=log)


def body(prompt: str, user: str = USER, *, stream: bool) -> dict[str, Any]:
    """A chat of two messages."""
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": user}]
    return {"model": "m", "messages": messages, "stream": stream}


async def withheld(session: aiohttp.ClientSession, url: str, case: Case, *, stream: bool) -> bool:
    """Whether the answer of a case is withheld. Any result other than withheld or complete raises an error."""
    prompt, user, text = case
    headers = {"x-say": json.dumps(text)}
    asked = body(prompt, user, stream=stream)
    async with session.post(f"{url}/v1/chat/completions", json=asked, headers=headers) as answer:
        if answer.status == 400:
            return bool((await answer.json())["error"]["code"] == "content_filter")
        raw = b""
        try:
            async for piece in answer.content.iter_any():
                raw += piece
        except aiohttp.ClientPayloadError:
            return b"content_filter" in raw
    events = [json.loads(line[6:]) for line in raw.split(b"\n") if line.startswith(b"data: {")] if stream else []
    whole = "".join(e["choices"][0]["delta"]["content"] for e in events) if stream else _content(raw)
    if answer.status != 200 or whole != text:
        raise SystemExit(f"status {answer.status}, or an answer that was changed on its way")
    return False


def _content(raw: bytes) -> str:
    return str(json.loads(raw)["choices"][0]["message"]["content"])


async def count(url: str, cases: list[Case], *, stream: bool) -> int:
    """Number of these cases that are withheld."""
    async with aiohttp.ClientSession() as session:
        return sum([await withheld(session, url, case, stream=stream) for case in cases])


async def first_word(session: aiohttp.ClientSession, url: str, pace: float) -> float:
    """Seconds to the first piece of text of a stream."""
    headers = {"x-say": json.dumps(TALK), "x-pace": str(pace)}
    prompt = leaks()[0][0]
    begun = time.perf_counter()
    async with session.post(f"{url}/v1/chat/completions", json=body(prompt, stream=True), headers=headers) as answer:
        await answer.content.readuntil(b"\n\n")
        return time.perf_counter() - begun


async def first_words(urls: dict[str, str], rounds: int, pace: float) -> dict[str, float]:
    """Median milliseconds to the first word, by sidecar; the first round is a warm-up."""
    taken: dict[str, list[float]] = {name: [] for name in urls}
    async with aiohttp.ClientSession() as session:
        for turn in range(rounds + 1):
            for name, url in urls.items():
                seconds = await first_word(session, url, pace)
                taken[name] += [seconds * 1000] if turn else []
    return {name: round(statistics.median(values), 1) for name, values in taken.items()}


def rows(path: Path) -> list[Case]:
    """Harmless texts of a labelled file, in turn under the system prompts of the cases."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    prompts = list(dict.fromkeys(prompt for prompt, _ in leaks()))
    values = (json.loads(line) for line in data.splitlines() if line)
    texts = [row["text"] for row in values if row["benign"] and len(row["text"]) < LONGEST]
    return [(prompts[number % len(prompts)], USER, text) for number, text in enumerate(texts)]


def sets_of_cases() -> dict[str, list[Case]]:
    """The cases by name: leaks of the system prompt, leaks of secrets, and a thousand ordinary answers."""
    prompt = leaks()[0][0]
    return {
        "leaks": [(system, USER, text) for system, text in leaks()],
        "secrets": [(prompt, USER, text) for text in secrets()],
        "ordinary": [*((system, USER, text) for system, text in ordinary()), *conversations()],
    }


async def run(extra_file: Path | None, rounds: int, pace: float, hold: int) -> dict[str, Any]:
    """All figures."""
    async with running(hold) as urls:
        figures: dict[str, Any] = {"hold": hold, "pace_ms": pace * 1000, "piece": PIECE}
        sets = sets_of_cases() | ({"file": rows(extra_file)} if extra_file else {})
        for name, cases in sets.items():
            counts = {way: await count(urls["block"], cases, stream=way == "stream") for way in ("whole", "stream")}
            figures[name] = {"cases": len(cases), **counts}
        figures["first_word_ms"] = await first_words(urls, rounds, pace)
    return figures


def show(figures: dict[str, Any]) -> None:
    """Print the figures."""
    for name in ("leaks", "secrets", "ordinary", "file"):
        if name in figures:
            row = figures[name]
            print(f"{name:<9} {row['cases']:>5} answers, withheld {row['whole']} whole and {row['stream']} streamed")
    word = figures["first_word_ms"]
    pace = f"{figures['piece']} characters each {figures['pace_ms']:g} ms, {figures['hold']} held back"
    print(f"first word, {pace}: direct {word['direct']} ms, off {word['off']} ms, block {word['block']} ms")


def main() -> None:
    """Arguments in, figures out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ordinary", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pace", type=float, default=0.02)
    parser.add_argument("--hold", type=int, default=160)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(upstream(chosen.serve))
        return
    figures = asyncio.run(run(chosen.ordinary, chosen.rounds, chosen.pace, chosen.hold))
    if chosen.json:
        print(json.dumps(figures, indent=1))
    else:
        show(figures)


if __name__ == "__main__":
    main()
