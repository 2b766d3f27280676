"""The documents' claims about failure modes name tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`((?:\w+/)*test_\w+\.py)(?:::(test_\w+))?`")
FAILURES = 40
"""Rows of the failure matrix."""


def functions_of(path: Path) -> set[str]:
    """The tests of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("document", ["docs/security.md", "docs/reliability.md", "docs/inline.md", "docs/reports.md"])
def test_every_test_that_is_named_exists(document: str) -> None:
    """`folder/test_module.py::test_name` below `tests/`; no claim without its test."""
    named = NAMED.findall((ROOT / document).read_text("utf-8"))
    assert len(named) > 20
    for module, test in named:
        path = ROOT / "tests" / module
        assert path.exists(), module
        assert not test or test in functions_of(path), f"{module}::{test}"


def rows(document: str, heading: str) -> list[str]:
    """The rows of the first table below a heading."""
    part = (ROOT / document).read_text("utf-8").partition(f"## {heading}")[2].partition("\n## ")[0]
    return [line for line in part.splitlines() if line.startswith("|")][2:]


def test_every_row_of_the_failure_matrix_names_a_test() -> None:
    """Every row has a test."""
    found = rows("docs/reliability.md", "The failure matrix")
    assert len(found) == FAILURES
    assert [row for row in found if not NAMED.search(row)] == []


def test_every_class_of_bypass_names_a_test() -> None:
    """The same for the inline proxy."""
    found = rows("docs/inline.md", "Bypass attempts")
    assert len(found) > 30
    assert [row for row in found if not NAMED.search(row)] == []


@pytest.mark.parametrize(("heading", "count"), [("Classes of faults", 23), ("Reports", 46), ("What is asked for", 12)])
def test_every_report_names_a_test(heading: str, count: int) -> None:
    """Each class of fault, each report and each request."""
    found = rows("docs/reports.md", heading)
    assert len(found) == count
    assert [row for row in found if not NAMED.search(row)] == []


def test_every_claim_of_the_threat_model_names_a_test() -> None:
    """Each defended threat ends with its test."""
    text = (ROOT / "docs/security.md").read_text("utf-8").partition("## What is defended")[2].partition("\n## ")[0]
    claims = [claim for claim in re.split(r"\n(?=- )", text) if claim.startswith("- ")]
    assert len(claims) > 8
    assert [claim for claim in claims if not NAMED.search(claim)] == []
