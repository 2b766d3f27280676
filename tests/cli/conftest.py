"""Shared by the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support import RULES_ONLY


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a rules-only config.yaml and a store of its own."""
    folder = tmp_path_factory.mktemp("home")
    store = {"store": {"url": f"sqlite:///{folder}/sidecar.db"}}
    (folder / "config.yaml").write_text(yaml.safe_dump({**RULES_ONLY, **store}), "utf-8")
    return folder
