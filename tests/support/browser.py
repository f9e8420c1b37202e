"""A real browser: Chromium of the system, without a window."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Selenium's driver; a machine without Chromium skips, continuous integration fails."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing and "CI" in os.environ:
        pytest.fail(f"expected {' and '.join(missing)} of the system; .ci/run installs them")
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} of the system")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    running = webdriver.Chrome(options=options, service=service)
    try:
        yield running
    finally:
        running.quit()


@pytest.fixture
def browser(tmp_path):
    """One for a test."""
    with chromium(tmp_path / "profile") as running:
        yield running


def show(browser: Any, width: int, scheme: str, height: int = 900) -> None:
    """Pages from now on, on a screen of so many pixels, ``"light"`` or ``"dark"``."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
