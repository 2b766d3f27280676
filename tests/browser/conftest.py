"""A real browser for the tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import ARGUMENTS, CHROMIUM
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=120_000)
        yield chromium
        chromium.close()
