"""Twin of sidecar/detectors/rules/selftest_cache.py: what was proved by this very code is believed, nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.config import Settings
from sidecar.detectors.rules import selftest_cache
from sidecar.errors import PolicyError
from sidecar.policy import Rule
from sidecar.runtime.builder import ServerContext, open_scanner

RULE = Rule.model_validate(
    {
        "id": "T-1",
        "title": "A test",
        "label": "jailbreak",
        "score": 0.9,
        "languages": ["en"],
        "patterns": [r"\bbanana\b"],
        "match": ["One banana please."],
        "no_match": ["Two bananas please."],
    }
)
OTHER = RULE.model_copy(update={"id": "T-2"})
BROKEN = """
family: jailbreak
rules:
  - id: T-3
    title: A test
    score: 0.9
    languages: [en]
    patterns: ['\\bcherry\\b']
    match: [One banana please.]
    no_match: [Two bananas please.]
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record in a folder that is not there yet, like `__pycache__`; this process may keep it."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    return tmp_path / "cache" / "proven.txt"


def test_what_was_kept_is_recalled_and_added_to(record: Path) -> None:
    """Rule by rule: one kept later does not displace an earlier one."""
    assert selftest_cache.load([RULE, OTHER], record) == set()
    selftest_cache.store([RULE], record)
    assert selftest_cache.load([RULE, OTHER], record) == {RULE}
    selftest_cache.store([OTHER], record)
    assert selftest_cache.load([RULE, OTHER], record) == {RULE, OTHER}


@pytest.mark.parametrize(
    "changed",
    [
        {"patterns": (r"\bapple\b",)},
        {"match": ("Two bananas please.",)},
        {"no_match": ("One banana please.",)},
        {"misses": ("A banana.",)},
        {"check": "luhn"},
        {"views": ("base64",)},
        {"status": "test"},
    ],
)
def test_a_rule_that_was_edited_is_not_recalled(record: Path, changed: dict[str, object]) -> None:
    """Any edit of a rule invalidates its entry."""
    selftest_cache.store([RULE], record)
    assert selftest_cache.load([RULE.model_copy(update=changed)], record) == set()


def test_other_code_believes_nothing(record: Path) -> None:
    """The first line is the code digest; entries of other code are replaced."""
    selftest_cache.store([RULE], record)
    lines = record.read_text("ascii").split("\n")
    record.write_text("\n".join(["0" * 64, *lines[1:]]), "ascii")
    assert selftest_cache.load([RULE], record) == set()
    selftest_cache.store([OTHER], record)
    assert selftest_cache.load([RULE, OTHER], record) == {OTHER}


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"\n", b"garbage"])
def test_a_damaged_record_is_as_none(record: Path, content: bytes) -> None:
    """A damaged file is ignored and rewritten."""
    record.parent.mkdir()
    record.write_bytes(content)
    assert selftest_cache.load([RULE], record) == set()
    selftest_cache.store([RULE], record)
    assert selftest_cache.load([RULE], record) == {RULE}


def test_a_record_does_not_grow_for_ever(record: Path) -> None:
    """The file is bounded."""
    selftest_cache.store([RULE], record)
    with record.open("a", encoding="ascii") as file:
        file.writelines(f"{number:064}\n" for number in range(selftest_cache.MAX_RULES))
    selftest_cache.store([OTHER], record)
    assert selftest_cache.load([RULE, OTHER], record) == {OTHER}


def test_a_folder_that_cannot_be_written_to_is_no_trouble(tmp_path: Path) -> None:
    """Nothing is stored, nothing fails, and no temporary file remains."""
    in_the_way = tmp_path / "proven.txt"
    in_the_way.mkdir()
    selftest_cache.store([RULE], in_the_way / "no-folder" / "proven.txt")
    selftest_cache.store([RULE], Path(os.devnull) / "proven.txt")
    assert selftest_cache.load([RULE], in_the_way) == set()


KEEPING = """
import sys
from pathlib import Path
from sidecar import policy
from sidecar.detectors.rules import selftest_cache
selftest_cache.store([policy.Rule.model_validate_json(sys.argv[1])], Path(sys.argv[2]))
"""


@pytest.mark.parametrize("forbidden", ["", "1"])
def test_where_no_bytecode_is_kept_nothing_is(record: Path, forbidden: str) -> None:
    """PYTHONDONTWRITEBYTECODE, or `python -B`, says so."""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": forbidden}
    subprocess.run([sys.executable, "-c", KEEPING, RULE.model_dump_json(), str(record)], check=True, env=environ)
    assert record.exists() is not bool(forbidden)


async def test_a_broken_rule_is_refused_beside_all_that_is_known(tmp_path: Path) -> None:
    """Shipped rules are loaded or tested; a failing custom rule stops every start."""
    (tmp_path / "own.yaml").write_text(BROKEN, "utf-8")
    settings = Settings.model_validate(
        {"layers": {"semantic": {"enabled": False}}, "policies": ["shipped", str(tmp_path)]}
    )
    for _ in range(2):
        with pytest.raises(PolicyError, match=r"T-3: match 'One banana please\.' is not met"):
            async with open_scanner(settings, server=ServerContext(b"secret")):
                pass
