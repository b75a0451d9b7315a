"""A real HTTP server on this machine that serves files, and can be told to misbehave."""

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """Serves what `read(path)` returns; None is a file it does not have.

    Attributes:
        fault: What it does wrong: "corrupt", "truncate" (less than it said), "cut" (less, and it says so), "refuse"
            (404), "stall" (silent from the first byte), "stall midway", or None.
        knows_ranges: Whether it can send the rest of a file.
        delay: Seconds it waits before it sends a file.
        asked: The path and the Range header of each request.
    """

    daemon_threads = True

    def __init__(self, read):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.read = read
        self.fault = None
        self.knows_ranges = True
        self.delay = 0.0
        self.asked = []
        self.is_closing = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Clients that hang up are part of the test."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, path = self.server, self.path.lstrip("/")
        server.asked.append((path, self.headers.get("Range")))
        content = server.read(path)
        if content is None or server.fault == "refuse":
            self.send_error(404)
            return
        if server.fault == "stall":
            server.is_closing.wait(10)
            return
        server.is_closing.wait(server.delay)
        if server.fault == "corrupt":
            content = bytes(byte ^ 1 for byte in content)
        if server.fault == "cut":
            content = content[: len(content) // 2]
        start = self.start_of_range() if server.knows_ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        is_broken = server.fault in ("truncate", "stall midway")
        self.wfile.write(content[start : len(content) // 2] if is_broken else content[start:])
        if server.fault == "stall midway":
            self.wfile.flush()
            server.is_closing.wait(10)

    def start_of_range(self):
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        return int(found[1]) if found else 0

    def log_message(self, *arguments):
        """Say nothing."""


@contextmanager
def serving(read):
    with FileServer(read) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.is_closing.set()
            server.shutdown()
            thread.join()
