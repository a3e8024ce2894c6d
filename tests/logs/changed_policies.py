"""Read changed policy files and decide with them; print the outcome of each. A child process runs it: it may crash."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

from drcrm.errors import InputError
from drcrm.logs.policy_file import read_policy
from drcrm.logs.serving.served_policy import ServedPolicy


def outcome(path: Path, contexts) -> str:
    """Return "refused", "served", or what is wrong."""
    try:
        stored = read_policy(path, with_rows=True)
    except InputError as error:
        return "refused" if str(error).startswith(str(path)) else f"a message without the file: {error}"
    except Exception as error:  # a traceback is what the test looks for
        return f"{type(error).__name__} {error}"
    try:
        served = ServedPolicy(stored)
        X = served._encode(contexts)
        results = [served.policy.marginals(X), served.decide(contexts, random_state=0)[1]]
        if stored.model is not None:
            features, actions = served.policy.actions.bind(X)
            results.append(stored.model.effects(features, actions))
    except InputError:  # the context lacks a feature of the changed encoding
        return "refused"
    except Exception as error:
        return f"{type(error).__name__} {error}"
    return "served" if all(np.isfinite(result).all() for result in results) else f"served {results}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        for path in sorted(Path(sys.argv[1]).glob("*.npz")):
            print(json.dumps([path.stem, "crashed"]), file=file, flush=True)
            contexts = json.loads((path.parent / "contexts.json").read_text(encoding="utf-8"))
            print(json.dumps([path.stem, outcome(path, contexts)]), file=file, flush=True)
