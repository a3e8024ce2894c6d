"""The example of a web service answers a client, and the decisions it writes are a log."""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pandas as pd
import pytest
from examples.web_handler import make_application
from served_contexts import stored_policy

from drcrm.serving.served_policy import ServedPolicy

CONTEXT = {"age": 30, "price": None, "city": "Bern", "id": "7", "at": "2024-05-01T13:45", "day": "2024-05-01"}


class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def service():
    """Return the address of a running service, and the file of its decisions."""
    decisions = io.StringIO()
    application = make_application(ServedPolicy(stored_policy()), decisions)
    with make_server("127.0.0.1", 0, application, handler_class=Quiet) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", decisions
        server.shutdown()
        thread.join()


def post(address: str, body: bytes) -> dict:
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=10) as response:
        return json.load(response)


def test_a_client_gets_actions_that_are_written_with_their_propensities(service):
    address, decisions = service
    answers = [post(address, json.dumps(CONTEXT).encode()) for _ in range(5)]
    written = pd.DataFrame([json.loads(line) for line in decisions.getvalue().splitlines()])
    assert written[["decision", "action", "propensity"]].to_dict("records") == answers
    assert written["decision"].is_unique
    served = ServedPolicy(stored_policy())
    probability = served.policy.marginals(served._encode([CONTEXT]))[0]
    for answer in answers:
        assert answer["propensity"] == pytest.approx(probability[served.names.index(answer["action"])], rel=1e-12)


@pytest.mark.parametrize(("body", "message"), [(b"[]", "expected a context"), (b"{", ""), (b"{}", "has no 'age'")])
def test_an_invalid_request_is_answered_with_the_reason(service, body, message):
    address, decisions = service
    with pytest.raises(urllib.error.HTTPError) as error:
        post(address, body)
    with error.value:
        assert (error.value.code, message in json.load(error.value)["error"]) == (400, True)
    assert decisions.getvalue() == ""
