"""
Route requests to language models
=================================

A router sends each request to one of three language models. It logs the weights of all models, and the quality, price
and latency of the answer. This example draws such a log and learns a router that must not be more expensive or slower.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import drcrm

MODELS = ["small", "medium", "large"]
LAMBDA = 0.2  # quality that a cent is worth
MAPPING = """\
action: model
propensity: {weights: weights, actions: [small, medium, large]}
reward: reward
guardrails:
  price: {cost: price, at_most: 0 %}
  latency: {cost: latency, at_most: 5 %}
features: {numeric: [tokens], categorical: [task, language]}
group: user
"""


def draw_requests(n: int, seed: int) -> pd.DataFrame:
    """Draw n requests. Long requests need a large model, except translations, which a small one does well."""
    rng = np.random.default_rng(seed)
    tokens = rng.lognormal(6, 1, n).round().clip(max=4000)  # the models read at most 4000 tokens
    task = rng.choice(["chat", "code", "translation"], n)
    scores = np.column_stack([np.zeros(n), np.full(n, 0.3), 0.4 * np.log(tokens / 400)])
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    model = (weights.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    difficulty = np.where(task == "translation", 0.1, np.where(task == "code", 0.9, 0.4)) + np.log(tokens / 400) / 5
    mean = np.clip(0.9 - difficulty * (1 - model / 2), 0, 1)
    price = np.array([0.5, 2.0, 8.0])[model] * tokens / 1000
    frame = pd.DataFrame({"user": rng.integers(0, n // 2, n), "tokens": tokens, "task": task})
    frame["language"] = rng.choice(["de", "en", "fr"], n)
    frame["model"], frame["weights"] = np.array(MODELS)[model], weights.tolist()
    frame["quality"], frame["price"] = np.clip(mean + rng.normal(0, 0.1, n), 0, 1), price
    frame["latency"] = np.array([0.4, 0.9, 2.0])[model] * rng.lognormal(0, 0.3, n)
    return frame.assign(reward=frame["quality"] - LAMBDA * price)


# %%
# Write the log as JSON lines, and its mapping. The weights are a list in each line.

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)
requests = draw_requests(4000, 0)
requests.to_json(folder / "requests.jsonl", orient="records", lines=True, double_precision=15)
(folder / "router.yaml").write_text(MAPPING, encoding="utf-8")
print(json.dumps(requests.iloc[0].to_dict()))

# %%
# Learn a router. The linear policies suffice here.

mapping = folder / "router.yaml"
answer = drcrm.learn(folder / "requests.jsonl", mapping, output=folder / "router.npz", exportable=True)
print(answer.as_dict()["verdict"]["sentence"])

# %%
# Ask it for the model of a request.

print(
    drcrm.load_policy(folder / "router.npz").decide({"tokens": 900, "task": "code", "language": "en"}, random_state=0)
)
