"""Screenshots of the playground for docs/playground.md, by the Chromium of the system.

    python benchmarks/playground.py [--epsilon 10]

One release of pseudonyms and words on the default space, whose certificate takes minutes where it
is not on disk; 1280 pixels wide in light colours, 390 in dark ones, reduced to 64 colours.
"""

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import pages
from PIL import Image
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette

from dp_middleware.gateway.playground import Playground, default_choices, routes
from dp_middleware.gateway.service import Gate
from dp_middleware.gateway.settings import Limits

sys.path.insert(0, str(pages.ROOT / "tests"))
from support.browser import chromium, show
from support.gateway import serving

TEXT = (
    "Mirela Tamburi wrote from mirela.tamburi@acme.test about her visit in Berlin on 2024-03-01 "
    "and her left knee, swollen since the surgery, for which she takes strong medicine."
)
SCREENS = ((1280, "light"), (390, "dark"))
HEIGHT = "return document.documentElement.offsetHeight"
COLOURS, PATIENCE = 64, 600  # of a picture; seconds


def release(browser: Any, url: str, epsilon: float) -> None:
    def wait(script: str) -> None:
        WebDriverWait(browser, PATIENCE).until(lambda running: running.execute_script(script))

    browser.get(f"{url}/")
    wait("return document.querySelectorAll('input[name=choice]').length")
    browser.find_element("id", "text").send_keys(TEXT)
    browser.find_element("id", "choice-both").click()
    number = browser.find_element("id", "epsilon")
    number.clear()
    number.send_keys(f"{epsilon:g}")
    browser.find_element("id", "send").click()
    wait("return document.getElementById('send').textContent === 'Release'")
    browser.find_element("id", "send").click()
    wait("return document.getElementById('status').textContent === 'Released.'")


if __name__ == "__main__":
    epsilon, made = pages.options(__doc__, epsilon=10.0).epsilon, Playground(default_choices())
    app = Starlette(routes=routes(lambda: made, Gate(Limits())))
    folder = tempfile.TemporaryDirectory()
    with serving(app) as port, folder, chromium(Path(folder.name)) as browser:
        for width, scheme in SCREENS:
            show(browser, width, scheme)
            release(browser, f"http://127.0.0.1:{port}", epsilon)
            show(browser, width, scheme, browser.execute_script(HEIGHT))
            path = pages.ROOT / "docs" / "images" / f"playground_{width}.png"
            with Image.open(io.BytesIO(browser.get_screenshot_as_png())) as image:
                image.convert("RGB").quantize(COLOURS).save(path, optimize=True)
