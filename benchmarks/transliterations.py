"""Recall of orders in ten forms of transliteration, and refusals of their harmless twins (`transliterations.yaml`).

    python -m benchmarks.transliterations [--part open|held] [--layers rules,semantic] [--missed]

Each text is scanned as a user's turn, with the shipped rules and the default threshold.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.evasion import request
from sidecar import config
from sidecar.config import Settings
from sidecar.evaluation.outcomes import is_refused
from sidecar.runtime.builder import open_scanner

FILE = Path(__file__).with_suffix(".yaml")
PARTS = ("open", "held")


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


async def measure(part: str, layers: Sequence[str]) -> list[Result]:
    """All forms with these layers alone."""
    semantic = config.SemanticLayer(enabled="semantic" in layers)
    settings = Settings(layers=config.Layers(semantic=semantic), scan=config.Scan(deadline=600.0))
    results = []
    async with open_scanner(settings, selftests=False) as scanner:
        for form, rows in texts(part).items():
            found = {
                text: is_refused(await scanner.engine.scan(request(text, "user")))
                for text in (*rows["attacks"], *rows["harmless"])
            }
            passed = [text for text in rows["attacks"] if not found[text]]
            refused = [text for text in rows["harmless"] if found[text]]
            results.append(Result(form, passed, refused, len(rows["attacks"]), len(rows["harmless"])))
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default="open")
    parser.add_argument("--layers", default="rules,semantic")
    parser.add_argument("--missed", action="store_true", help="also the texts that are judged wrongly")
    arguments = parser.parse_args()
    for result in asyncio.run(measure(arguments.part, arguments.layers.split(","))):
        caught, refused = result.attacks - len(result.passed), len(result.refused)
        print(f"| {result.form} | {caught} of {result.attacks} | {refused} of {result.harmless} |")
        if arguments.missed:
            print(*(f"    {text}" for text in (*result.passed, *result.refused)), sep="\n")


if __name__ == "__main__":
    main()
