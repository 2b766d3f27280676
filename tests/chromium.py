"""The installed Chromium, for tests in a real browser; its fixture is in `browser/conftest.py`."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("gpu", "quic", "background-networking", "component-update", "sync", "dev-shm-usage")
ARGUMENTS = ["--no-sandbox", "--no-first-run", *(f"--disable-{feature}" for feature in QUIET)]
IN_A_BROWSER = [
    pytest.mark.slow,
    pytest.mark.timeout(540),
    pytest.mark.skipif(not CHROMIUM and "CI" not in os.environ, reason="no Chromium on this machine"),
]
