"""Upper confidence bounds on a mean and on a policy's cost.

See :mod:`drcrm.certificates.bounds` and :mod:`drcrm.certificates.policy_certificate`.
"""

from drcrm.certificates.bounds import upper_bound
from drcrm.certificates.certificate import Certificate
from drcrm.certificates.policy_certificate import policy_certificate

__all__ = ["Certificate", "policy_certificate", "upper_bound"]
