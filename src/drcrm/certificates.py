"""Upper confidence bounds on a mean and on a policy's cost, and their sensitivity to wrong propensities.

The package :mod:`drcrm.evaluation` has the formulas.
"""

from drcrm.evaluation.bounds.upper_bound import upper_bound
from drcrm.evaluation.certificate import Certificate
from drcrm.evaluation.policy_certificate import policy_certificate, sensitivity
from drcrm.evaluation.sensitivity import Sensitivity

__all__ = ["Certificate", "Sensitivity", "policy_certificate", "sensitivity", "upper_bound"]
