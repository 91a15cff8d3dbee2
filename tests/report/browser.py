"""Headless Chromium, and a server that records requests."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

LIGHT, DARK = 1, 0
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # No other host resolves, so that a request to one fails wherever the tests run.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--virtual-time-budget=5000",
)


@dataclass(slots=True)
class Site:
    """A server with pages and the paths that were requested."""

    pages: dict[str, str]
    address: str = ""
    asked: list[str] = field(default_factory=list)


@contextmanager
def serve(pages: Mapping[str, str]) -> Iterator[Site]:
    site = Site(dict(pages))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            page = site.pages.get(self.path)
            body = (page or "").encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def dump_dom(address: str, profile: Path, scheme: int = LIGHT) -> str:
    """Return the document after all scripts have run."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("Chromium is missing: run scripts/ensure-browser")
    command = [
        *(chromium, *_FLAGS, f"--user-data-dir={profile}"),
        *(f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom", address),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        out, _ = process.communicate(timeout=90)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return out.decode()
