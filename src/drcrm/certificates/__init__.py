"""Upper bounds of a mean, and of a policy's cost; see :mod:`drcrm.certificates.bounds` and
:mod:`drcrm.certificates.policy_certificate`."""

from drcrm.certificates.bounds import upper_bound
from drcrm.certificates.policy_certificate import Certificate, policy_certificate

__all__ = ["Certificate", "policy_certificate", "upper_bound"]
