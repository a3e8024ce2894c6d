"""Lines of dsjson as Vowpal Wabbit writes them, without randomness, and a policy to evaluate on them."""

import json
from pathlib import Path


def line(number: int) -> str:
    """Return an event with 2 to 5 actions; every seventh has ``_skipLearn``."""
    n_actions = 2 + number % 4
    chosen = number * 7 % n_actions
    order = [chosen, *(action for action in range(n_actions) if action != chosen)]
    first = 0.5 + 0.4 * (number % 5) / 5
    p = [first, *[(1 - first) / (n_actions - 1)] * (n_actions - 1)]
    cost = -(number * 13 % 11) / 10
    actions = ",".join(f'{{"A":{{"id":"{action}"}}}}' for action in range(n_actions))
    skip = ',"_skipLearn":true' if number % 7 == 3 else ""
    return (
        f'{{"_label_cost":{cost!r},"_label_probability":{first!r},"_label_Action":{chosen + 1},'
        f'"_labelIndex":{chosen}{skip},'
        f'"Timestamp":"2026-01-01T00:00:15.5160000Z","Version":"1","EventId":"{number:036d}",'
        f'"a":[{",".join(str(action + 1) for action in order)}],"c":{{"U":{{"n":{number}}},"_multi":[{actions}]}},'
        f'"p":[{",".join(map(repr, p))}]}}'
    )


def candidate(chosen: int, n_actions: int) -> float:
    """Return the probability of an action under the evaluated policy: proportional to its place, from 1."""
    return (chosen + 1) / (n_actions * (n_actions + 1) / 2)


LINES = [line(number) for number in range(200)]


def decision(**changes) -> dict:
    """Return an event with action 2 of 3; a key with the value ``...`` is left out."""
    event = {
        "_label_cost": -1.0,
        "_label_probability": 0.7,
        "_label_Action": 2,
        "_labelIndex": 1,
        "o": [{"EventId": "e", "v": 1}],
        "Timestamp": "2020-01-01T00:00:00Z",
        "Version": "1",
        "EventId": "e",
        "a": [2, 1, 3],
        "c": {
            "User": {"city": "Bern", "age": 3},
            "_multi": [{"A": {"id": "x"}}, {"A": {"id": "y", "n": 2}}, {"b": True}],
        },
        "p": [0.7, 0.1, 0.2],
        "VWState": {"m": "0"},
    }
    return {key: value for key, value in {**event, **changes}.items() if value is not ...}


def write_lines(folder: Path, *lines: object, name: str = "log.dsjson") -> Path:
    """Write texts, and other values as JSON, to the lines of a file; return its path."""
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path
