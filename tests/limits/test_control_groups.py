"""Twin of sidecar/limits/control_groups.py: where the limits of a process are."""

from __future__ import annotations

from pathlib import Path

from sidecar.limits.control_groups import folders


def test_a_group_and_those_that_contain_it(tmp_path: Path) -> None:
    """Of version 2 for every controller, of version 1 for its own; nothing where there are no groups."""
    groups, mount = tmp_path / "cgroup", tmp_path / "mount"
    groups.write_text("5:cpu,cpuacct:/pod\n0::/pod/app\n")
    assert [folder for folder in folders("memory", groups, mount) if folder.is_relative_to(mount)] == [
        mount / "pod" / "app",
        mount / "pod",
        mount,
    ]
    assert mount / "cpu" / "pod" in folders("cpu", groups, mount)
    assert list(folders("cpu", tmp_path / "none", mount)) == []
