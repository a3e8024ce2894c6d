"""An HTTP server on this machine, which stops with the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[ThreadingHTTPServer]:
    """Serve requests by a handler. The server has its address in ``url``."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    http.url = f"http://127.0.0.1:{http.server_port}"
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield http
    http.shutdown()
    thread.join()
    http.server_close()
