"""A ConfigMap as mounted in a pod: files are links through `..data`, which is swapped atomically."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path


class ConfigMap:
    """A mounted volume whose content can be replaced like by the kubelet."""

    def __init__(self, path: Path, files: Mapping[str, str]) -> None:
        self.path = path
        self._versions = count(1)
        path.mkdir()
        self.update(files)

    def update(self, files: Mapping[str, str]) -> None:
        """Replace all files atomically: create a folder, swap the link, add links of new files, remove old ones."""
        data = self.path / "..data"
        old = data.resolve() if data.exists() else None
        folder = self.path / f"..version_{next(self._versions)}"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content, "utf-8")
        fresh = self.path / "..data_tmp"
        fresh.symlink_to(folder.name)
        fresh.rename(data)
        for name in files:
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        for link in self.path.iterdir():
            if link.is_symlink() and not link.name.startswith("..") and link.name not in files:
                link.unlink()
        if old is not None:
            shutil.rmtree(old)
