"""The documentation for tests: every Markdown page and its code blocks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE = sorted(DOCS.rglob("*.md"))
README = ROOT / "README.md"
FOLDERS = ("benchmarks", "k8s", "policies", "sidecar/models", "training/corpus")
OUTSIDE = [*sorted(ROOT.glob("*.md")), *(ROOT / name / "README.md" for name in FOLDERS)]
PAGES = [*SITE, *OUTSIDE]
_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A code block: its page and number, and its text without indentation."""

    page: Path
    number: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """The id for a parametrized test."""
        return f"{self.page.relative_to(ROOT).with_suffix('')}-{self.number}"


def blocks(*languages: str) -> Iterator[Block]:
    """All blocks of these languages, or of all if none is given."""
    for page in PAGES:
        for number, match in enumerate(_BLOCK.finditer(page.read_text("utf-8"))):
            if not languages or match["language"] in languages:
                yield Block(page, number, match["language"], textwrap.dedent(match["text"]))
