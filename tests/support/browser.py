"""A real browser: Chromium of the system, without a window."""

import os
import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def chromium(profile):
    """Selenium's driver; a machine without Chromium skips, continuous integration fails."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        without = pytest.fail if "CI" in os.environ else pytest.skip  # .ci/run installs them
        without(f"needs {' and '.join(missing)} of the system")
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
    with chromium(tmp_path / "profile") as running:
        yield running


def show(browser, width, scheme, height=900):
    """Pages from now on, on a screen of so many pixels, ``"light"`` or ``"dark"``."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
