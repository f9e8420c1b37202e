"""The playground by one command: a page on a free port, which it prints."""

import re
import signal
import socket
import subprocess
import sys

import httpx
from support.commands import refused


def test_it_prints_the_url_of_a_page_with_plain_choices_first():
    command = [sys.executable, "-c", "from dp_middleware.cli import app; app()", "playground"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = map(re.compile(r"http://127\S+/").search, process.stderr)
            url = next(match[0] for match in said if match)
            with httpx.Client(trust_env=False, timeout=30) as client:
                assert "Playground" in client.get(url).text
                form = client.get(f"{url}playground/form").json()
        finally:
            process.send_signal(signal.SIGINT)
    titles = [choice["title"] for choice in form["choices"]]
    assert titles[:3] == ["Pseudonyms", "Whole text", "Every word"]


def test_a_port_in_use_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert refused("playground", "--port", str(taken.getsockname()[1])).exit_code == 2
