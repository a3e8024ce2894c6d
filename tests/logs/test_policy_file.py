"""Policy files: the same policy comes back, and a damaged file is refused."""

import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomTreesEmbedding

from drcrm.cost_models.missing_cells import MissingCells
from drcrm.cost_models.ridge_model import CostModel
from drcrm.errors import InputError
from drcrm.files import read_npz
from drcrm.logging_policy import LoggingPolicy, SupportedModel
from drcrm.logs.encoding.base import ArrayEncoding
from drcrm.logs.policy_file import StoredPolicy, read_policy, write_policy
from drcrm.mapping.log_mapping import as_mapping
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.feature_maps import FeatureMap, as_transformer
from drcrm.policies.stored_policies import to_bytes

X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.fixture(params=[{"nystroem": 8}, RandomTreesEmbedding(3, random_state=0)], ids=str)
def file(request, tmp_path):
    """Return the path of a file with a mapped policy, and the policy."""
    features = FeatureMap(as_transformer(request.param), X)
    coef = np.random.default_rng(1).normal(size=(3 + features.n_mapped, 2))
    policy, model = SoftmaxPolicy(coef, features=features), CostModel()
    model.coef_, model.intercept_ = -coef, np.zeros(2)
    logging_policy = SoftmaxPolicy(2 * coef).with_exploration(0.2)
    model = SupportedModel(model, LoggingPolicy(logging_policy, 0.5), (-1.0, 0.0)).with_features(features)
    write_policy(tmp_path / "p.npz", StoredPolicy(policy, ArrayEncoding("single", [0, 1], 3), model, {}))
    return tmp_path / "p.npz", policy


def test_a_mapped_policy_comes_back(file):
    path, policy = file
    stored = read_policy(path)
    np.testing.assert_array_equal(stored.policy.marginals(X), policy.marginals(X))
    logging_policy = SoftmaxPolicy(2 * policy.coef, features=policy.features).with_exploration(0.2)
    np.testing.assert_array_equal(stored.model.logging.policy.marginals(X), logging_policy.marginals(X))


def test_a_file_with_damaged_bytes_is_refused_with_its_name(file):
    """One bit of each array is changed, or the end of the file is missing."""
    path, _ = file
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        starts = [member.header_offset for member in archive.infolist()] + [archive.start_dir]
    places = [end - 2 for end in starts[1:]]
    damaged = [content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :] for place in places]
    assert len(places) == 7
    for change in (*damaged, *(content[:cut] for cut in (0, 100, len(content) // 2, len(content) - 1))):
        path.write_bytes(change)
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: "):
            read_policy(path)


def test_arrays_of_other_shapes_or_kinds_are_refused(file):
    path, policy = file
    arrays = read_npz(path, [*np.load(path)])
    wrong_shapes = [name for name in arrays if arrays[name].ndim and name != "features"]
    assert len(wrong_shapes) == 5
    other_map = to_bytes(policy.features.transformer, "map")
    for name, change, message in (
        *((name, arrays[name][:-1], rf"{name.split('.')[-1]} has shape") for name in wrong_shapes),
        ("coef", np.array([{}]), "not a readable npz file"),
        ("features", np.zeros(9, dtype=np.uint8), "the feature map is damaged"),
        ("features", other_map, "the feature map is of type"),
        ("header", np.array(str(arrays["header"]).replace("encoding", "coding")), "truncated or from another version"),
    ):
        np.savez(path, **(arrays | {name: change}))
        with pytest.raises(InputError, match=message):
            read_policy(path)


def test_the_number_of_candidates_depends_on_the_outcome_and_the_confidence():
    rail = {"cost": "returned", "at_most": 0.01}
    content = {
        "action": "a",
        "reward": "click",
        "guardrails": {"returned": rail, "paid": {"reward": "paid", "at_least": 0}},
    }
    header = {"mapping": content, "choices": 40, "confidence": 0.95, "effective_choices": 3}
    numbers = {"effective_numbers": [[0.95, 3], [0.99, 5]], "guardrail_numbers": {"returned": [[0.95, 13]]}}
    policy = SoftmaxPolicy(np.zeros((3, 2)))
    stored, earlier = (StoredPolicy(policy, None, None, content) for content in (header | numbers, header))

    def levels(stored, **changes):
        numbers = stored.numbers(as_mapping(content | changes))
        rails = {name: rail.at(0.95) for name, rail in numbers.of_guardrails.items()}
        return [numbers.main.at(level) for level in (0.9, 0.95, 0.96, 0.999)], rails

    assert levels(stored) == ([3, 3, 5, 40], {"returned": 13, "paid": 40})
    assert levels(earlier) == ([3, 3, 40, 40], {"returned": 40, "paid": 40})
    assert levels(stored, reward="spent") == ([40] * 4, {"returned": 13, "paid": 40})
    wider = {"returned": rail | {"at_most": 0.02}}
    assert levels(stored, guardrails=wider)[1] == {"returned": 13}
    for other in (rail | {"at_most": "2 %"}, rail | {"cost": "refunded"}):
        assert levels(stored, guardrails={"returned": other})[1] == {}
    for wrong in (
        {"effective_choices": 0.01},
        {"effective_numbers": [[0.95, 41]]},
        {"guardrail_numbers": {"returned": 2}},
    ):
        with pytest.raises(InputError, match="from 1 to the number of candidates, 40"):
            levels(StoredPolicy(policy, None, None, header | wrong))


def test_cells_without_actions_are_read_back(tmp_path):
    cells = MissingCells(np.array([1]), np.array([[-np.inf, 0.2, -np.inf]]), np.array([[np.inf, 0.5, np.inf]]))
    policy, encoding = SoftmaxPolicy(np.eye(3)[:, :2]), ArrayEncoding("single", [0, 1], 3)
    for stored in (cells, None):  # files of earlier versions have none
        write_policy(tmp_path / "p.npz", StoredPolicy(policy, encoding, None, {}, cells=stored))
        read = read_policy(tmp_path / "p.npz").cells
        assert (read is None) == (stored is None)
        if stored is not None:
            for name, array in vars(stored).items():
                np.testing.assert_array_equal(getattr(read, name), array)
    write_policy(
        tmp_path / "p.npz", StoredPolicy(policy, encoding, None, {}, cells=replace(cells, low=np.zeros((1, 2))))
    )
    with pytest.raises(InputError, match="cells without actions"):
        read_policy(tmp_path / "p.npz")
