"""Distributionally robust counterfactual risk minimization: learning a better policy from the logs of an old one."""

from importlib import import_module

from .version import __version__ as __version__

_HOMES = {
    "ExponentialPolicy": "core.policies",
    "SoftmaxPolicy": "core.policies",
    "ActionLists": "core.actions",
    "BanditLog": "logs.bandit_log",
    "read_log": "logs.bandit_log",
    "CIPS": "estimators",
    "POEM": "estimators",
    "KLCRM": "estimators",
    "AdaptiveKLCRM": "estimators",
    "KLDRO": "estimators",
    "Chi2DRO": "estimators",
    "PhiDRO": "estimators",
    "CVaRDRO": "estimators",
    "DoublyRobustDRO": "estimators",
    "LogSmoothing": "estimators",
    "LogSumExp": "estimators",
    "WeightedLikelihood": "estimators",
    "HeldoutScorer": "scorers",
    "CostModel": "core.cost_model",
    "off_policy_value": "core.evaluation",
    "PolicyValue": "core.intervals",
    "policy_support": "core.support",
    "Implicit": "core.weights",
    "Smoothed": "core.weights",
    "Shrunk": "core.weights",
}
__all__ = [*_HOMES]


_MODULES = ("certificates", "cluster", "divergences", "risks")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]


def __getattr__(name: str):
    """Import a public name when it is first used: a step must not pay for scikit-learn, which only estimators need."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
