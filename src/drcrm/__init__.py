"""Distributionally robust counterfactual risk minimization: learn a better policy from the log of a logging policy."""

from importlib import import_module

__version__ = "0.1.0"
_HOMES = {
    "ExponentialPolicy": "policies.exponential",
    "SoftmaxPolicy": "policies.exponential",
    "ActionLists": "actions.one_of_many",
    "BanditLog": "data.bandit_log",
    "read_log": "logs.read_log",
    "learn": "logs.decisions.api",
    "certify": "logs.decisions.api",
    "evaluate": "logs.decisions.api",
    "thompson_propensities": "logging_policy",
    "classifier_policy": "policies.classifier_policy",
    "load_policy": "logs.serving.served_policy",
    "ServedPolicy": "logs.serving.served_policy",
    "CIPS": "estimators.by_risk",
    "POEM": "estimators.by_risk",
    "KLCRM": "estimators.by_risk",
    "AdaptiveKLCRM": "estimators.by_risk",
    "KLDRO": "estimators.by_risk",
    "Chi2DRO": "estimators.by_risk",
    "PhiDRO": "estimators.by_risk",
    "CVaRDRO": "estimators.by_risk",
    "EnvironmentDRO": "estimators.by_risk",
    "DoublyRobustDRO": "estimators.doubly_robust",
    "LogSmoothing": "estimators.by_risk",
    "LogSumExp": "estimators.by_risk",
    "WeightedLikelihood": "estimators.by_risk",
    "HeldoutScorer": "estimators.fitted_policy",
    "CostModel": "cost_models.ridge_model",
    "RegressorModel": "cost_models.regressor_model",
    "cross_fit": "cost_models.cross_fitting",
    "off_policy_value": "evaluation.off_policy_value",
    "off_policy_values": "evaluation.off_policy_value",
    "Interval": "evaluation.bounds.independent_units",
    "policy_support": "evaluation.off_policy_value",
    "optimal_tree": "policies.trees.search",
    "PolicyTree": "estimators.policy_tree",
    "Implicit": "weights",
    "Smoothed": "weights",
    "Shrunk": "weights",
    "Subgaussian": "weights",
    "make_estimator": "bench.estimators",
}
__all__ = [*_HOMES]

_MODULES = {name: name for name in ("certificates", "cluster", "divergences", "risks")} | {"simulate": "bench.simulate"}


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]


def __getattr__(name: str):
    """Import a public name on first use. So commands do not import scikit-learn, which only estimators need."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in _MODULES:
        return import_module(f".{_MODULES[name]}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
