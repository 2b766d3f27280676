"""Compares two libraries on one document: the program of `sidecar.attachments` (pdfium), and pypdf.

Prints processor time and peak memory of a process of each, its start included, and whether the words of a line that is
drawn out of order come out in order. Runs in an environment that has both libraries:

    build/pdfs/bin/python benchmarks/pdfs.py --pages 200
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM, MODULE = (ROOT / "sidecar" / "attachments" / name for name in ("sandbox.py", "pdf.py"))
PYPDF = (
    "import sys, io, pypdf\n"
    "for page in pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages: print(page.extract_text())"
)
MEMORY, SECONDS, CHARACTERS = 256 * 1024 * 1024, 300, 10_000_000
SHUFFLED = b"BT /F1 12 Tf 1 0 0 1 110 40 Tm (the report) Tj 1 0 0 1 40 40 Tm (Please send) Tj ET"


def page(number: int) -> bytes:
    """The content of a page of fifty lines, and one drawn out of order."""
    sentence = "The quarterly report shows that revenue grew by four percent in the region"
    lines = b" ".join(f"({number} {line} {sentence}) Tj T*".encode() for line in range(50))
    return b"BT /F1 10 Tf 15 TL 40 800 Td " + lines + b" ET " + SHUFFLED


def measure(name: str, command: list[str], file: Path) -> None:
    """Run it with the file as input, and print."""
    with file.open("rb") as data, subprocess.Popen(command, stdin=data, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    ordered = text.count(b"Please send the report")
    print(f"{name}: {usage.ru_utime + usage.ru_stime:.2f} s, {usage.ru_maxrss // 1024} MB, {ordered} lines in order")


def main() -> None:
    """Make the document and measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from pdf_files import pdf  # noqa: PLC0415 - the writer of the tests

    arguments = map(str, (MODULE, MEMORY, SECONDS, options.pages, CHARACTERS))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "document.pdf"
        file.write_bytes(pdf(*(page(number) for number in range(options.pages))))
        measure("pdfium", [sys.executable, "-I", str(PROGRAM), *arguments], file)
        measure("pypdf", [sys.executable, "-c", PYPDF], file)


if __name__ == "__main__":
    main()
