"""Headless Chromium for tests of pages: that of npm, or the one that the machine has."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from places import ROOT

NODE_MODULES = ROOT / "tests/export/node/node_modules"
AXE = NODE_MODULES / "axe-core/axe.min.js"
_UNPACKED = NODE_MODULES / ".chromium"  # by tests/export/node/chromium.mjs


def headless_chromium() -> Iterator[Any]:
    """A browser of Playwright; for `pytest.fixture`, which skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path, environment = str(_UNPACKED / "chromium"), dict(os.environ)
    if os.path.exists(path):
        environment["LD_LIBRARY_PATH"] = str(_UNPACKED / "al2023/lib")
    else:
        path = shutil.which("chromium") or shutil.which("google-chrome") or ""
    if not path:
        pytest.skip("there is no Chromium: make exports-ready")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=path, env=environment, args=["--no-sandbox"]
        )
        yield browser
        browser.close()
