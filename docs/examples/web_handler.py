"""A web service that chooses actions: ``python web_handler.py POLICY DECISIONS``, with Python's own server.

A POST request has a context in JSON, and the answer is its action:

    $ curl --data '{"age": 31, "price": 12.5, "city": "Bern"}' http://localhost:8000
    {"decision": "5f2c…", "action": "sport", "propensity": 0.62}

DECISIONS gets a line of JSON for each decision, with the ID ``decision``. Join the lines with the rewards by this ID,
and write a CSV or Parquet file: the next log.
Any WSGI server can run ``make_application``.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable
from typing import Any, TextIO
from wsgiref.simple_server import make_server

from drcrm import load_policy


def make_application(policy: Any, decisions: TextIO) -> Callable:
    """Return the WSGI application of a policy, which writes its decisions to a file."""

    def application(environ: dict, start_response: Callable) -> list[bytes]:
        status = "200 OK"
        try:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            context = json.loads(body)
            if not isinstance(context, dict):
                raise ValueError("expected a context, a map in JSON")
            action, propensity = policy.decide(context)
            answer = {"decision": str(uuid.uuid4()), "action": action, "propensity": propensity}
            decisions.write(json.dumps(context | answer) + "\n")
            decisions.flush()
        except ValueError as error:  # also JSON's errors and drcrm's InputError
            status, answer = "400 Bad Request", {"error": str(error)}
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    return application


if __name__ == "__main__":
    with open(sys.argv[2], "a", encoding="utf-8") as file:
        make_server("", 8000, make_application(load_policy(sys.argv[1]), file)).serve_forever()
