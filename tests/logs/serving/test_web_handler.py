"""The example of a web service answers requests, and the decisions it writes are a log."""

import io
import json

import pandas as pd
import pytest
from examples.web_handler import make_application
from fixtures.served_policies import stored_policy

from drcrm.logs.serving.served_policy import ServedPolicy

CONTEXT = {"age": 30, "price": None, "city": "Bern", "id": "7", "at": "2024-05-01T13:45", "day": "2024-05-01"}


def post(body: bytes, decisions: io.StringIO) -> tuple[str, dict]:
    """Return the status and the content of the answer to a request."""
    application, statuses = make_application(ServedPolicy(stored_policy()), decisions), []
    environ = {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
    answer = b"".join(application(environ, lambda status, headers: statuses.append(status)))
    return statuses[0], json.loads(answer)


def test_a_client_gets_actions_that_are_written_with_their_propensities():
    decisions = io.StringIO()
    statuses, answers = zip(*(post(json.dumps(CONTEXT).encode(), decisions) for _ in range(5)), strict=True)
    assert {*statuses} == {"200 OK"}
    written = pd.DataFrame([json.loads(line) for line in decisions.getvalue().splitlines()])
    assert written[["decision", "action", "propensity"]].to_dict("records") == [*answers]
    assert written["decision"].is_unique
    served = ServedPolicy(stored_policy())
    probability = served.policy.marginals(served._encode([CONTEXT]))[0]
    for answer in answers:
        assert answer["propensity"] == pytest.approx(probability[served.names.index(answer["action"])], rel=1e-12)


@pytest.mark.parametrize(("body", "message"), [(b"[]", "expected a context"), (b"{", ""), (b"{}", "has no 'age'")])
def test_an_invalid_request_is_answered_with_the_reason(body, message):
    decisions = io.StringIO()
    status, answer = post(body, decisions)
    assert (status[:3], message in answer["error"], decisions.getvalue()) == ("400", True, "")
