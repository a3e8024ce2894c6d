"""Certificates: upper bounds of a mean cost, and of a policy's; see :mod:`drcrm.core.certificates`."""

from .core.certificates import Certificate, policy_certificate, upper_bound

__all__ = ["Certificate", "policy_certificate", "upper_bound"]
