"""Harmless texts and foreign instructions in the forms in which tools deliver text: what is refused, by form.

    python -m benchmarks.forms [--texts 250] [--only mail_base64 ...] [--layers rules,semantic]

The same texts (`benchmarks/blind`) are scanned as they stand and in each form: JSON with ASCII escapes, files of an API
in base64, mails in base64 and quoted-printable, HTML, decomposed accents, soft hyphens, special spaces, wrapped lines,
logs, CSV, diffs, subtitles, comments, queries of addresses. None of them is a disguise: a form should change nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import csv
import gzip
import html
import io
import json
import quopri
import random
import textwrap
import unicodedata
import urllib.parse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from sidecar import config
from sidecar.config import Settings
from sidecar.evaluation.outcomes import is_refused
from sidecar.runtime.builder import open_scanner
from sidecar.scan.aggregation import Caller
from sidecar.scan.engine import Engine
from sidecar.types import ScanRequest, Segment, Source

BLIND = Path(__file__).parent / "blind"
HARMLESS = "c_traffic", "e_everyday", "f_read", "g_read"
ATTACKS = "f_read", "g_read"
MIN_LENGTH = 40
"""Characters of a text that is used."""
SYLLABLE, HYPHENATED = 3, 0.4
"""Letters before a soft hyphen, and the share of such places that have one."""
MAIL = "From: a@shop.example\nTo: b@shop.example\nSubject: note\nContent-Type: text/plain; charset=utf-8\n"


def soft_hyphens(text: str) -> str:
    """As pages and PDF files hyphenate."""
    rng, out, letters = random.Random(len(text)), list[str](), 0
    for at, letter in enumerate(text):
        letters = letters + 1 if letter.isalpha() else 0
        out.append(letter)
        if letters >= SYLLABLE and text[at + 1 : at + 3].isalpha() and rng.random() < HYPHENATED:
            out.append("\u00ad")
            letters = 0
    return "".join(out)


def table(text: str) -> str:
    """A row of CSV among others."""
    file = io.StringIO()
    csv.writer(file).writerows([["id", "text"], ["1", text], ["2", "ok"]])
    return file.getvalue()


def encoded(text: str) -> str:
    """Base64 in UTF-8."""
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json_ascii": lambda text: json.dumps({"id": 7, "content": text}),
    "json_in_json": lambda text: json.dumps({"result": json.dumps({"content": text})}, ensure_ascii=False),
    "api_base64": lambda text: json.dumps({"path": "notes.md", "encoding": "base64", "content": encoded(text)}),
    "mail_base64": lambda text: f"{MAIL}Content-Transfer-Encoding: base64\n\n{textwrap.fill(encoded(text), 76)}",
    "mail_quoted": lambda text: (
        f"{MAIL}Content-Transfer-Encoding: quoted-printable\n\n{quopri.encodestring(text.encode()).decode()}"
    ),
    "html": lambda text: f"<html><body><p>{html.escape(text)}</p></body></html>",
    "html_entities": lambda text: html.escape(text).encode("ascii", "xmlcharrefreplace").decode(),
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "soft_hyphens": soft_hyphens,
    "no_break_spaces": lambda text: text.replace(" ", "\u00a0"),
    "break_points": lambda text: text.replace(" ", " \u200b"),
    "wrapped": lambda text: textwrap.fill(text, 48),
    "capitals": str.upper,
    "query": lambda text: f"GET /search?q={urllib.parse.quote(text)} HTTP/1.1",
    "csv": table,
    "log": lambda text: "\n".join(f"2026-11-02T09:10:00Z INFO app: {line}" for line in text.splitlines()),
    "diff": lambda text: "--- a/notes\n+++ b/notes\n@@ -1,2 +1,9 @@\n" + textwrap.indent(text, "+"),
    "subtitles": lambda text: "\n\n".join(
        f"{number}\n00:01:{number % 60:02d},000 --> 00:01:{number % 60:02d},900\n{line}"
        for number, line in enumerate(textwrap.wrap(text, 40))
    ),
    "comments": lambda text: textwrap.indent(textwrap.fill(text, 90), "# ") + "\ndef run():\n    return 1\n",
}


def read(names: Sequence[str], *, benign: bool, most: int) -> list[str]:
    """At most that many texts of these files, the last turn of a conversation; the same ones each time."""
    texts = []
    for name in names:
        with gzip.open(BLIND / f"{name}.jsonl.gz", "rt") as file:
            rows = [json.loads(line) for line in file]
        chosen = [row.get("text") or row["messages"][-1]["content"] for row in rows if row["benign"] is benign]
        texts += [text for text in chosen if isinstance(text, str) and len(text) >= MIN_LENGTH]
    return random.Random(1).sample(texts, min(most, len(texts)))


async def refused(engine: Engine, texts: Sequence[str]) -> tuple[int, Counter[str]]:
    """How many are refused as results of a tool, and the first finding of each."""
    count, causes = 0, Counter[str]()
    for text in texts:
        verdict = await engine.scan(ScanRequest((Segment(text, Source.UNTRUSTED),)), Caller(thorough=True))
        if is_refused(verdict):
            count += 1
            causes[max(verdict.findings, key=lambda finding: (finding.decides, finding.score)).rule] += 1
    return count, causes


async def measure(most: int, only: Sequence[str], layers: str) -> None:
    """Print a row for each form."""
    harmless, attacks = read(HARMLESS, benign=True, most=most), read(ATTACKS, benign=False, most=most)
    semantic = config.SemanticLayer(enabled="semantic" in layers)
    settings = Settings(layers=config.Layers(semantic=semantic), scan=config.Scan(deadline=600.0))
    print("| form | harmless refused | attacks caught | first finding of the refused |\n|---|---:|---:|---|")
    async with open_scanner(settings, selftests=False) as built:
        for name in only or FORMS:
            wrong, causes = await refused(built.engine, [FORMS[name](text) for text in harmless])
            right, _ = await refused(built.engine, [FORMS[name](text) for text in attacks])
            named = ", ".join(f"{rule} {count}" for rule, count in causes.most_common(3))
            print(f"| {name} | {wrong} of {len(harmless)} | {right} of {len(attacks)} | {named} |", flush=True)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=250)
    parser.add_argument("--only", nargs="*", default=[], choices=FORMS)
    parser.add_argument("--layers", default="rules,semantic")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.texts, arguments.only, arguments.layers))


if __name__ == "__main__":
    main()
