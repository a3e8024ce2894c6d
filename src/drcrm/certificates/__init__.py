"""Upper confidence bounds on a mean and on a policy's cost, and their sensitivity to wrong propensities.

See :mod:`drcrm.certificates.bounds`, :mod:`drcrm.certificates.policy_certificate` and the class ``Sensitivity``.
"""

from drcrm.certificates.bounds import upper_bound
from drcrm.certificates.certificate import Certificate
from drcrm.certificates.policy_certificate import policy_certificate
from drcrm.certificates.sensitivity import Sensitivity, sensitivity

__all__ = ["Certificate", "Sensitivity", "policy_certificate", "sensitivity", "upper_bound"]
