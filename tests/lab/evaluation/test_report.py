"""The report: well-formed, complete, silent on the network, and drawn by a real browser."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from typing import ClassVar

import pytest
from support.letters import Letters

import dp_middleware as dp
from dp_middleware.lab.evaluation import Results, _plots
from dp_middleware.lab.evaluation.report import report

pytest.importorskip("matplotlib", reason="needs the eval extra")
pytest.importorskip("rouge_score", reason="needs the eval extra")

MECHANISMS = ("token-exponential", "custext", "metric-noise", "cape")


@pytest.fixture(scope="module")
def table(space, reviews):
    return dp.evaluate(
        MECHANISMS,
        (1.0, 3.0),
        reviews,
        space=space,
        service=Letters(),
        metrics=("retention", "mapping-set-size", "rouge-l", "sbert-cosine"),
        exact=True,
        limit=8,
    )


@pytest.fixture(scope="module")
def page(table):
    return report(table)


def test_it_says_what_is_equal_best_infinite_and_not_run(page):
    text = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert "sbert-cosine at equal exact epsilon" in text
    assert text.count('class="number best"') >= 2
    assert re.search(r"<td>custext</td><td>1</td><td>1</td><td>infinite</td>", text)
    assert "Infinite, out of reach or not run: custext, cape." in text
    assert re.search(
        r"<td>cape</td><td>1</td><td>rouge-l</td><td>reviews</td><td>expected context=", text
    )
    assert "A sentence, token by token" in text


def test_no_text_of_the_data_is_in_it(page, reviews):
    assert not any(text in page for text in reviews.texts[:8])


def test_names_are_escaped(table):
    rows = [{**row, "data": "<b>x", "mechanism": "<i>y"} for row in table]
    found = report(Results(rows=rows, examples=[]))
    assert "<b>x" not in found
    assert "<i>y" not in found


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.mark.timeout(300)
def test_a_browser_draws_every_plot_without_errors_or_requests(page, browser, tmp_path):
    (tmp_path / "report.html").write_text(page)
    handler = functools.partial(Quiet, directory=str(tmp_path))
    Quiet.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            browser.get(f"http://127.0.0.1:{server.server_port}/report.html")
            sizes = browser.execute_script(
                "return [...document.querySelectorAll('figure svg')].map(each => {"
                " const box = each.getBoundingClientRect();"
                " const inked = [...each.querySelectorAll('use, path')].filter("
                "   mark => mark.getBoundingClientRect().width > 0);"
                " return [box.width, box.height, inked.length]; })"
            )
            fetched = browser.execute_script(
                "return performance.getEntriesByType('resource').map(entry => entry.name)"
            )
            logged = browser.get_log("browser")
        finally:
            server.shutdown()
            thread.join()
    assert len(sizes) == len(_plots.PLOTS)
    assert all(width > 300 and height > 150 and marks > 50 for width, height, marks in sizes)
    assert logged == []
    assert [name for name in fetched if not name.startswith("data:")] == []
    assert Quiet.asked == ["/report.html"]
