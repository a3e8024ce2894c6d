"""Policies, and the classes that the file of a policy may name."""

from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy

POLICY_CLASSES: dict[str, type[LinearPolicy]] = {
    policy.__name__: policy for policy in (ExponentialPolicy, SoftmaxPolicy)
}
