"""Files that the pipeline's steps exchange."""

import numpy as np
from sklearn.kernel_approximation import Nystroem

from drcrm import SoftmaxPolicy
from drcrm.actions.one_of_many import SingleChoice
from drcrm.paper.array_files import read_policy, write_policy
from drcrm.policies.feature_maps import FeatureMap


def test_a_policy_is_read_with_its_feature_map(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    features = FeatureMap(Nystroem(n_components=10, random_state=0), X)
    policy = SoftmaxPolicy(rng.normal(size=(12, 3)), features=features)
    write_policy(tmp_path / "policy.npz", policy, C=np.array(1.0))
    read = read_policy(tmp_path / "policy.npz", SingleChoice(3))
    assert np.array_equal(read.marginals(X), policy.marginals(X))
