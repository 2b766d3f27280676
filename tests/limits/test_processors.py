"""Twin of sidecar/limits/processors.py: limits of containers as files, and a process bound to one processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.limits.processors import available

PRINT = "from sidecar.limits.processors import available; print(available())"
ALL = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def limited(folder: Path, line: str, files: dict[str, str]) -> int:
    """What a process in such a group may use."""
    (folder / "cgroup").write_text(f"{line}\n")
    for name, text in files.items():
        (folder / "mount" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "mount" / name).write_text(f"{text}\n")
    return available(folder / "cgroup", folder / "mount")


@pytest.mark.parametrize(
    ("line", "files", "count"),
    [
        ("0::/", {"cpu.max": "100000 100000"}, 1),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "max 100000"}, ALL),
        ("0::/pod/app", {"pod/cpu.max": "100000 100000", "pod/app/cpu.max": "max 100000"}, 1),
        ("0::/pod", {"cpu.max": "9900000 100000"}, ALL),
        ("4:cpu,cpuacct:/pod", {"cpu/pod/cpu.cfs_quota_us": "70000", "cpu/pod/cpu.cfs_period_us": "100000"}, 1),
        ("4:cpu,cpuacct:/pod", {"cpu/pod/cpu.cfs_quota_us": "-1", "cpu/pod/cpu.cfs_period_us": "100000"}, ALL),
        ("4:memory:/pod", {"cpu.max": "100000 100000"}, ALL),
        ("0::/", {"cpu.max": "what"}, ALL),
    ],
)
def test_a_container_may_use_its_share(tmp_path: Path, line: str, files: dict[str, str], count: int) -> None:
    """In whole processors; no more than there are, and the least of the groups around it."""
    assert limited(tmp_path, line, files) == count


def test_half_a_processor_more_counts_as_one(tmp_path: Path) -> None:
    """1.5 are 2, where there are as many."""
    assert limited(tmp_path, "0::/", {"cpu.max": "150000 100000"}) == min(2, ALL)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are bound to processors on Linux")
def test_a_process_bound_to_one_processor(tmp_path: Path) -> None:
    """Whatever the machine has; without control groups there is no limit."""
    assert available(tmp_path / "none", tmp_path) == ALL
    one = min(os.sched_getaffinity(0))
    bound = f"import os; os.sched_setaffinity(0, {{{one}}}); {PRINT}"
    assert subprocess.run([sys.executable, "-c", bound], capture_output=True, text=True, check=True).stdout == "1\n"
