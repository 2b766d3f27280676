"""Twin of tools/install.sh, with a stand-in for pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIP = """#!/bin/sh
case "$*" in
*" show "*) exit 1 ;;
*"-r requirements.lock"*) echo "WARNING: noise"; echo "Collecting anyio"; sleep 4; exit {code} ;;
*) echo "pip $*" ;;
esac
"""


@pytest.mark.parametrize("code", [0, 1])
def test_the_installation_says_at_once_what_it_does_and_shows_pips_words_only_if_it_fails(
    tmp_path: Path, code: int
) -> None:
    """A line before the first download, progress on standard error, and the end of pip's output on a failure."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "install.sh", tmp_path / "tools")
    (tmp_path / "requirements.lock").write_text("anyio==1.0\n", "utf-8")
    stand_in = tmp_path / ".venv" / "bin" / "python"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(PIP.format(code=code), "utf-8")
    stand_in.chmod(0o755)
    command = ["/bin/sh", str(tmp_path / "tools" / "install.sh"), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert done.stdout.startswith("Installing 1 locked packages")
    assert "pip " in done.stdout.partition("\n")[2]
    assert ("WARNING: noise" in done.stderr) is (code == 1)
    assert "1 of 1 packages" in done.stderr
