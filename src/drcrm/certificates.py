"""Upper bounds of a mean, and of a policy's cost; see :mod:`drcrm.core.bounds` and :mod:`drcrm.core.certificates`."""

from .core.bounds import upper_bound
from .core.certificates import Certificate, policy_certificate

__all__ = ["Certificate", "policy_certificate", "upper_bound"]
