"""Compares our detection with other detectors on the same labelled units in one run.

    python -m benchmarks.detectors FILE [--every N] [--ours ROWS] [--peers PYTHON] [--json OUT]
    python -m benchmarks.detectors --own --peers PYTHON [--write]

`make bench-detectors DATA=FILE` is the first, `make bench-comparison` the second: on our own blind sets of rows,
documents and conversations, into docs/comparison.md. Ours is measured as `sidecar eval` measures it, with the shipped
policies, model and threshold, one unit at a time and without the cache (`--ours` takes the rows that it wrote with
`--out` before). The others run in a separate environment (`--peers` is its interpreter) with their default settings, on
the texts that the sidecar scans of a unit: the highest score counts, and a unit is blocked if one of its texts is. A
unit is an attack if it carries one of the four attack labels and benign if it is labelled so; rows with personal data
alone are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.detector_figures import Answer, Figures, figures, table
from sidecar.config import Settings
from sidecar.evaluation import Row, conversations, read_rows
from sidecar.extraction import json_body
from sidecar.extraction.extraction import extract
from sidecar.scan.selection import Selector

HERE = Path(__file__).parent
SCORE = HERE / "peers" / "score.py"
PAGE = HERE.parent / "docs" / "comparison.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
PEERS = (
    "stackone-defender",
    "jailguard",
    "securevector-guardian",
    "aicordon-picket",
    "litellm-filter",
    "ai-injection-guard",
)
OURS = {"prompt-sidecar": "rules,semantic", "prompt-sidecar, rules alone": "rules"}
OWN = {
    "rows": ("f_turns", "g_turns"),
    "documents": ("f_read", "g_read"),
    "conversations": ("e_tools", "g_tools", "g_retrieved", "g_conv", "e_everyday"),
}
"""Sets that the shipped model has not learnt from."""
ENVIRONMENT = {"SIDECAR__CACHE__ENTRIES": "0", "HF_HUB_OFFLINE": "1"}
Groups = Mapping[str, Sequence[Path]]
Measured = tuple[list[Answer], float]
"""The answers of a detector, and the peak of its resident memory in MB."""


def texts(row: Row, selector: Selector, depth: int) -> list[str]:
    """The texts of a unit that the sidecar scans."""
    if row.body is None:
        return [row.text]
    document = json_body.parse(json.dumps(row.body).encode(), depth=depth)
    extraction = extract(document, row.operation, conversations.dialect(row.operation))
    return [segment.text for segment in selector.select(extraction, document=document).request.segments]


def run(command: Sequence[str | Path], folder: Path, given: str = "") -> float:
    """Run a command on `given`, with its output in `folder/out`; the peak of its memory. Ends the run if it fails."""
    (folder / "in").write_text(given, "utf-8")
    with (folder / "in").open("rb") as source, (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(command, stdin=source, stdout=out, stderr=err, env=os.environ | ENVIRONMENT)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, _peak(process.pid))
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"failed: {(folder / 'err').read_text('utf-8').strip().splitlines()[-1]}")
    return peak


def _peak(process: int) -> float:
    """The peak of a process so far; 0 when it has ended."""
    status = Path(f"/proc/{process}/status").read_text("ascii", "replace")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024 if "VmHWM:" in status else 0.0


def ours(path: Path, rows: Sequence[Row], layers: str) -> Measured:
    """Our results, from `sidecar eval` on the file in a separate process."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "rows.jsonl"
        command = [sys.executable, "-m", "sidecar", "eval", str(path), "--layers", layers, "--out", str(out)]
        peak = run([*command, "--concurrency", "1"], Path(name))
        return written(out, rows), peak


def written(path: Path, rows: Sequence[Row]) -> list[Answer]:
    """The results that `sidecar eval --out` wrote, in the order of the rows."""
    answers = {value["id"]: value for value in map(json.loads, path.read_text("utf-8").splitlines())}
    lines = (answers[row.id] for row in rows)
    return [Answer(value["risk_score"], value["action"] == "block", value["latency_ms"]) for value in lines]


def theirs(python: Path, name: str, units: Sequence[Sequence[str]], script: Path = SCORE) -> Measured:
    """Results of another detector's package for units of one or more texts; each different text is asked once."""
    different = list(dict.fromkeys(text for unit in units for text in unit))
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(json.dumps(text) + "\n" for text in different)
        try:
            peak = run([python, script, name], Path(folder), lines)
        except SystemExit as error:
            raise SystemExit(f"{name} {error}") from None
        found = (Answer(*json.loads(line)) for line in (Path(folder) / "out").read_text("utf-8").splitlines())
        answers = dict(zip(different, found, strict=True))
    return [_together([answers[text] for text in unit]) for unit in units], peak


def _together(answers: Sequence[Answer]) -> Answer:
    """The answer for a unit of several texts."""
    score = max((a.score for a in answers), default=0.0)
    return Answer(score, any(a.blocked for a in answers), sum(a.elapsed for a in answers))


def joined(groups: Groups, folder: Path) -> Path:
    """All files as one, which `sidecar eval` reads."""
    path = folder / "units.jsonl"
    files = [file for files in groups.values() for file in files]
    path.write_bytes(b"".join(gzip.decompress(f.read_bytes()) if f.suffix == ".gz" else f.read_bytes() for f in files))
    return path


def detectors(path: Path, rows: Sequence[Row], arguments: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
    """Every detector with its results."""
    if arguments.ours:
        yield "prompt-sidecar", (written(arguments.ours, rows), 0.0)
    for name, layers in () if arguments.ours else OURS.items():
        yield name, ours(path, rows, layers)
    settings = Settings()
    selector = Selector(settings)
    units = [texts(row, selector, settings.limits.depth) for row in rows]
    for name in PEERS if arguments.peers else ():
        yield name, theirs(arguments.peers, name, units)


def sections(
    groups: Groups, rows: Sequence[Row], measured: Mapping[str, Measured]
) -> Iterator[tuple[str, dict[str, Figures]]]:
    """A heading and the figures of each detector for every kind of unit."""
    rng = np.random.default_rng(7)
    for name, files in groups.items():
        ids = {row.id for file in files for row in read_rows(file)}
        at = [i for i, row in enumerate(rows) if row.id in ids]
        attacks = sum(rows[i].attack for i in at)
        title = f"{name.capitalize()}: {attacks} attacks, {len(at) - attacks} benign"
        kept = [rows[i] for i in at]
        yield title, {who: figures(kept, [answers[i] for i in at], rng) for who, (answers, _) in measured.items()}


def write(text: str) -> None:
    """Put the tables between the marks of the page."""
    before, _, tail = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{tail.partition(END)[2]}", "utf-8")


def parsed() -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--own", action="store_true", help="our own blind sets, instead of a file")
    parser.add_argument("--peers", type=Path, help="the interpreter of the peers' environment")
    parser.add_argument("--ours", type=Path, help="rows of `sidecar eval --out`, instead of evaluating now")
    parser.add_argument("--every", type=int, default=1, help="use every n-th row only")
    parser.add_argument("--json", type=Path, dest="out", help="also write the figures to this file")
    parser.add_argument("--write", action="store_true", help="also write the tables to docs/comparison.md")
    arguments = parser.parse_args()
    if bool(arguments.path) is arguments.own:
        parser.error("a file or --own is needed")
    return arguments


def main() -> None:
    """Measure our detector and, with `--peers`, the others."""
    arguments = parsed()
    blind = {name: [HERE / "blind" / f"{file}.jsonl.gz" for file in files] for name, files in OWN.items()}
    groups: Groups = blind if arguments.own else {"units": [arguments.path]}
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.path or joined(groups, Path(folder))
        rows = [row for row in read_rows(path) if row.attack or row.benign][:: arguments.every]
        measured = dict(detectors(path, rows, arguments))
    found = dict(sections(groups, rows, measured))
    megabytes = {name: peak for name, (_, peak) in measured.items()}
    day = f"Measured {datetime.now(UTC):%Y-%m-%d}."
    text = "\n\n".join([day, *(f"**{title}**\n\n{table(each, megabytes)}" for title, each in found.items())])
    print(text)
    if arguments.write:
        write(text)
    if arguments.out:
        values = {title: {name: asdict(figure) for name, figure in each.items()} for title, each in found.items()}
        arguments.out.write_text(json.dumps(values, indent=1), "utf-8")


if __name__ == "__main__":
    main()
