"""Counts the corpus for its data card: `python -m training.card` rewrites the tables in `corpus/README.md`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import orjson

from training.rows import CORPUS

MARK = "<!-- counts, by python -m training.card -->"


def tables() -> Iterator[str]:
    """Markdown: by file, by language, and every family with its counts."""
    values = [
        (path.stem, orjson.loads(line))
        for path in sorted(CORPUS.glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
        if line.strip()
    ]
    whole = Counter(bool(value["labels"]) for _, value in values)
    yield f"{len(values)} rows: {whole[True]} attacks, {whole[False]} harmless.\n"
    for title, column in (("file", 0), ("language", 1), ("channel", 2), ("family", 3)):
        counted: dict[str, Counter[str]] = {}
        for name, value in values:
            keys = (name, value["lang"], value.get("channel", "direct"), f"{name}: {value.get('family', '')}")
            counted.setdefault(keys[column], Counter())["attack" if value["labels"] else "harmless"] += 1
        yield f"| {title} | attacks | harmless |\n|---|---:|---:|"
        yield from (f"| {key} | {n['attack']} | {n['harmless']} |" for key, n in sorted(counted.items()))
        yield ""


def main() -> None:
    """Rewrite the tables below the mark."""
    card = CORPUS / "README.md"
    intro = card.read_text("utf-8").partition(MARK)[0].rstrip()
    card.write_text("\n".join([intro, "", MARK, "", *tables()]).rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    main()
