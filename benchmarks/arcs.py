"""Prepares files of arcs (conversations that become an attack) for `sidecar eval --growing`.

    python -m benchmarks.arcs benchmarks/blind/i_arcs_sealed.jsonl.gz build/arcs.jsonl
    sidecar eval build/arcs.jsonl --growing --concurrency 1

An attack ends before the last user turn, so that only what was refused before it counts as caught; harmless
conversations stay whole. With `--growing` a client's request is scanned for each turn.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import click
import orjson

from sidecar.types import Label

Arc = dict[str, Any]


def unit(arc: Arc) -> Arc:
    """The conversation as a row of `sidecar eval`."""
    messages = arc["messages"]
    if not arc["benign"]:
        users = [at for at, message in enumerate(messages) if message["role"] == "user"]
        messages = messages[: users[-1]]
    labels = [] if arc["benign"] else [str(Label.JAILBREAK)]
    named = {name: arc[name] for name in ("id", "lang", "benign")}
    return {**named, "labels": labels, "source": "arcs", "kind": arc.get("trick") or "harmless", "messages": messages}


@click.command()
@click.argument("arcs", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
def main(arcs: Path, out: Path) -> None:
    """Write the conversations of ARCS to OUT."""
    content = gzip.decompress(arcs.read_bytes()) if arcs.suffix == ".gz" else arcs.read_bytes()
    rows = [orjson.dumps(unit(orjson.loads(line))) for line in content.splitlines() if line.strip()]
    out.write_bytes(b"\n".join(rows) + b"\n")
    click.echo(f"{len(rows)} conversations", err=True)


if __name__ == "__main__":
    main()
