"""Recall of orders in ten forms of transliteration, and refusals of their harmless twins (`transliterations.yaml`).

    python -m benchmarks.transliterations [--part open|held] [--layers rules,semantic] [--missed] [--corpus]

Each text is scanned as a user's turn, with the shipped rules and the default threshold. `--corpus`: instead, rows of
our own corpus in six languages, written in Latin letters (`benchmarks.romanization`): attacks of at most 400 characters
that are refused in their own script, and all harmless rows of this length, most of them near misses. Half of the rows
are `open`, half `held`, by a checksum of the text.
"""

from __future__ import annotations

import argparse
import asyncio
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.evasion import CORPUS, request
from benchmarks.romanization import romanizers
from sidecar import config
from sidecar.config import Settings
from sidecar.evaluation import Row, read_rows
from sidecar.evaluation.outcomes import is_refused
from sidecar.runtime.builder import open_scanner
from sidecar.scan.engine import Engine

FILE = Path(__file__).with_suffix(".yaml")
PARTS = ("open", "held")
LONGEST = 400


class Result(NamedTuple):
    """One form: the attacks that passed, the harmless texts that were refused, and how many there are of each."""

    form: str
    passed: list[str]
    refused: list[str]
    attacks: int
    harmless: int


def texts(part: str) -> dict[str, dict[str, list[str]]]:
    """The attacks and harmless texts of one part, by form."""
    return {form: parts[part] for form, parts in yaml.safe_load(FILE.read_text("utf-8")).items()}


async def measure(part: str, layers: Sequence[str], *, corpus: bool = False) -> list[Result]:
    """All forms with these layers alone."""
    semantic = config.SemanticLayer(enabled="semantic" in layers)
    settings = Settings(layers=config.Layers(semantic=semantic), scan=config.Scan(deadline=600.0))
    async with open_scanner(settings, selftests=False) as scanner:
        forms = await romanized(scanner.engine, part) if corpus else texts(part)
        return [await result(scanner.engine, form, rows["attacks"], rows["harmless"]) for form, rows in forms.items()]


async def result(engine: Engine, form: str, attacks: list[str], harmless: list[str]) -> Result:
    """The figures of one form."""
    passed = [text for text in attacks if not await refuses(engine, text)]
    refused = [text for text in harmless if await refuses(engine, text)]
    return Result(form, passed, refused, len(attacks), len(harmless))


async def refuses(engine: Engine, text: str) -> bool:
    """Whether the text is refused as a user's turn."""
    return is_refused(await engine.scan(request(text, "user")))


async def romanized(engine: Engine, part: str) -> dict[str, dict[str, list[str]]]:
    """Rows of the corpus in Latin letters, by language."""
    rows = [row for path in sorted(CORPUS.glob("*.jsonl")) for row in read_rows(path) if is_of(row, part)]
    return {
        language: {
            "attacks": [
                romanize(row.text)
                for row in rows
                if row.lang == language and row.attack and await refuses(engine, row.text)
            ],
            "harmless": [romanize(row.text) for row in rows if row.lang == language and row.benign],
        }
        for language, romanize in romanizers().items()
    }


def is_of(row: Row, part: str) -> bool:
    """Whether the row is short and belongs to this half."""
    return 0 < len(row.text) <= LONGEST and PARTS[zlib.crc32(row.text.encode()) % 2] == part


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default="open")
    parser.add_argument("--layers", default="rules,semantic")
    parser.add_argument("--missed", action="store_true", help="also the texts that are judged wrongly")
    parser.add_argument("--corpus", action="store_true", help="rows of our corpus in Latin letters instead")
    arguments = parser.parse_args()
    for found in asyncio.run(measure(arguments.part, arguments.layers.split(","), corpus=arguments.corpus)):
        caught, refused = found.attacks - len(found.passed), len(found.refused)
        print(f"| {found.form} | {caught} of {found.attacks} | {refused} of {found.harmless} |")
        if arguments.missed:
            print(*(f"    {text}" for text in (*found.passed, *found.refused)), sep="\n")


if __name__ == "__main__":
    main()
