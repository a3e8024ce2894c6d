"""File of a learned policy: npz with a JSON header, without pickles.

The header has the mapping, the encoding, the algorithm and the digest of the log, so that other commands need no
configuration. The arrays are the policy, its feature map, the cost model with π0, and hashes of the log's rows. The
archive's checksums show damage; shapes are compared, and other content is trusted. Nothing in a file is executed.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.arrays.validation import as_float_array
from drcrm.cost_models.blended_model import MappedModel
from drcrm.cost_models.missing_cells import MissingCells
from drcrm.cost_models.regressor_model import RegressorModel
from drcrm.cost_models.ridge_model import CostModel
from drcrm.errors import InputError, prefix_errors, refuse_errors
from drcrm.files import is_stream, read_npz, write_npz
from drcrm.logging_policy import LoggingPolicy, SupportedModel
from drcrm.logs.encoding.base import ArrayEncoding, Encoding, HashedEncoding
from drcrm.logs.encoding.listed_tables import ListedTableEncoding
from drcrm.logs.encoding.tables import TableEncoding
from drcrm.logs.read_log import Source, files_of
from drcrm.logs.row_identity import LearnedRows
from drcrm.mapping.checks import parse_json
from drcrm.mapping.log_mapping import LogMapping, as_mapping
from drcrm.policies.base import MixturePolicy
from drcrm.policies.exponential import LinearPolicy, class_for
from drcrm.policies.stored_policies import FEATURES, POLICY_CLASSES, arrays_of, features_of, from_bytes, to_bytes
from drcrm.selection.candidates import EffectiveNumber, EffectiveNumbers

FORMAT = 1
ENCODINGS = {"table": TableEncoding, "listed table": ListedTableEncoding, "arrays": ArrayEncoding}
ENCODINGS |= {"named": HashedEncoding, "lists": HashedEncoding}
INCOMPLETE = "the policy file is truncated or from another version"
ROWS = "rows."  # prefix of the arrays of LearnedRows
CELLS = "cells."  # prefix of the arrays of MissingCells
MIXTURE, PART = MixturePolicy.__name__, "part{}."  # and the prefix of the arrays of each of its policies


@dataclass(frozen=True)
class StoredPolicy:
    """A learned policy with the encoding of its features and the results of the fit.

    Attributes
    ----------
    policy : ExponentialPolicy, SoftmaxPolicy or MixturePolicy
        Policy on the features X of the encoding.
    encoding : Encoding
    model : SupportedModel or None
        Cost model of the training rows, with π0 or its clone.
    header : mapping
        JSON: ``mapping``, ``algorithm``, ``seed``, ``choices``, ``effective_choices``, ``confidence``,
        ``effective_numbers``, ``guardrail_numbers``, ``digest``, ``verdict``, ``kept`` …
    rows : LearnedRows or None
        Hashes of the rows of the log.
    cells : MissingCells or None
        Cells in which the training rows lack actions. Files of earlier versions have none.
    """

    policy: LinearPolicy | MixturePolicy
    encoding: Encoding
    model: SupportedModel | None
    header: Mapping[str, object]
    rows: LearnedRows | None = None
    cells: MissingCells | None = None

    def require(self, key: str) -> Any:
        """Return an entry of the header; raise InputError if it is missing."""
        if key not in self.header:
            raise InputError(f"the policy file has no {key!r}, which drcrm learn writes: learn the policy again")
        return self.header[key]

    @property
    def mapping(self) -> LogMapping:
        """The mapping of the log from which the policy was learned."""
        return as_mapping(self.header.get("mapping"))

    def numbers(self, mapping: LogMapping) -> EffectiveNumbers:
        """Return the effective numbers of candidates for the outcome of a mapping, and for each of its guardrails.

        An outcome that took no part in the choice among the candidates has the number of all candidates. So has every
        outcome at levels above those that the file knows.
        """
        choices, header = self.require("choices"), self.header
        of_constraints: Any = header.get("guardrail_numbers") or {}
        trained: dict[str, Any] = {part.key: part for part in self.mapping.constraints}
        known: Any = header.get("effective_numbers", [])
        if not known and "effective_choices" in header:  # files of earlier versions have only the level of learn
            known = [[header.get("confidence", 0.95), header["effective_choices"]]]
        is_same = mapping.has_comparison_of(self.mapping)
        constraints = {
            part.key: EffectiveNumber.of_list(choices, of_constraints.get(part.key, []))
            for part in mapping.constraints
            if part.key in trained and part.has_terms_of(trained[part.key])
        }
        return EffectiveNumbers(EffectiveNumber.of_list(choices, known if is_same else []), constraints)


def digest(path: Source) -> str:
    """Return the SHA-256 of a file's bytes; for a folder or several files, of the digests of its files.

    Raise InputError if a file cannot be read.
    """
    if not isinstance(path, str | Path) or Path(path).is_dir():
        return hashlib.sha256(b"".join(bytes.fromhex(digest(file)) for file in files_of(path))).hexdigest()
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None


def write_policy(path: str | Path, stored: StoredPolicy) -> None:
    """Write the file of a policy, completely or not at all."""
    header = {**stored.header, "format": FORMAT, "encoding": stored.encoding.as_dict()}
    header |= {"explore": stored.policy.explore, "policy": type(stored.policy).__name__}
    arrays: dict[str, Any] = {}
    if isinstance(stored.policy, MixturePolicy):
        header["weights"] = stored.policy.weights.tolist()
        for number, part in enumerate(stored.policy.policies):
            arrays |= arrays_of(part, PART.format(number))
    else:
        arrays |= arrays_of(stored.policy)
    if stored.rows is not None:
        arrays |= {f"{ROWS}{name}": array for name, array in stored.rows.arrays().items()}
    if stored.cells is not None:
        arrays |= {f"{CELLS}{name}": array for name, array in vars(stored.cells).items()}
    model: Any = stored.model
    if model is not None:
        logging, limits = model.logging, list(model.limits)
        header["model"] = {"support": logging.support, "limits": limits, "is_imitated": logging.is_approximate}
        header["model"]["explore"] = logging.policy.explore
        if logging.is_supported is not None:
            arrays["logging.is_supported"] = logging.is_supported
        costs = model.model.model if isinstance(model.model, MappedModel) else model.model
        if isinstance(model.model, MappedModel) and FEATURES not in arrays:
            arrays[FEATURES] = to_bytes(model.model.features, "the feature map")
        if isinstance(costs, RegressorModel):
            arrays["cost.model"] = to_bytes(costs, "the cost model")
        else:
            arrays |= {"cost.coef": costs.coef_, "cost.intercept": np.asarray(costs.intercept_)}
        arrays |= {"logging.coef": logging.policy.coef, "logging.intercept": logging.policy.intercept}
    write_npz(path, header=np.array(json.dumps(header, ensure_ascii=False, allow_nan=False)), **arrays)


def require_replaceable(path: Path, option: str) -> bool:
    """Return whether a policy is in the file of an option; InputError if the file has another content."""
    if is_stream(path) or not path.exists() or path.stat().st_size == 0:
        return False
    try:
        _read_header(path)
    except (InputError, OSError):
        raise InputError(
            f"{option} {path} has a file that drcrm learn did not write, expected a policy or no file; "
            f"name another file with {option}"
        ) from None
    return True


def read_policy(path: str | Path, with_rows: bool = False) -> StoredPolicy:
    """Return the policy in a file; on request with the hashes of its log's rows.

    Raise InputError if the file is truncated, of another version, or not a policy.
    """
    header = _read_header(path)
    with np.load(path, allow_pickle=False) as archive:
        names = [name for name in archive.files if with_rows or not name.startswith(ROWS)]
    arrays = read_npz(path, names)
    with prefix_errors(path), refuse_errors(INCOMPLETE):
        encoding = encoding_of(header["encoding"])
        policy, model = _policy(header, arrays, encoding), _cost_model(encoding, arrays, header.get("model"))
        learned_rows = _learned_rows(arrays) if with_rows else None
        return StoredPolicy(policy, encoding, model, header, learned_rows, _cells(arrays, encoding))


def _read_header(path: str | Path) -> dict:
    """Return the header of a file; InputError if it is not a policy."""
    text = read_npz(path, ["header"])["header"]
    with prefix_errors(path):
        try:
            header = parse_json(str(text))
        except InputError as error:
            raise InputError(f"is not a policy from drcrm learn: its header {error}") from None
        if not isinstance(header, dict) or "format" not in header:
            raise InputError("is not a policy from drcrm learn: its header is not JSON with a format")
        if type(header["format"]) is not int or header["format"] != FORMAT:
            raise InputError(f"the policy file has format {header['format']!r}, expected {FORMAT}")
    return header


def encoding_of(content: Mapping[str, Any]) -> Encoding:
    """Return the encoding with the content that ``as_dict`` returned."""
    return ENCODINGS[content["of"]](**{key: value for key, value in content.items() if key != "of"})


def _policy(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], encoding: Encoding) -> Any:
    """Return the policy of a file; InputError unless it has the features and the actions of the encoding."""
    name, explore = header.get("policy"), header.get("explore", 0.0)
    if name not in (None, MIXTURE, *POLICY_CLASSES):
        raise InputError(f"the policy is of class {name!r}, expected one of {', '.join((MIXTURE, *POLICY_CLASSES))}")
    if name != MIXTURE:
        return _part(arrays, encoding, POLICY_CLASSES.get(name)).with_exploration(explore)
    weights = header["weights"]
    parts = [_part(arrays, encoding, prefix=PART.format(number)) for number in range(len(weights))]
    return MixturePolicy(parts, weights).with_exploration(explore)


def _part(
    arrays: Mapping[str, np.ndarray], encoding: Encoding, of_class: type[LinearPolicy] | None = None, prefix: str = ""
) -> LinearPolicy:
    """Return the linear policy whose arrays have a prefix."""
    features, n_features = _feature_map(arrays, encoding, prefix)
    return _linear_policy(encoding, n_features, arrays[f"{prefix}coef"], None, features, of_class)


def _feature_map(arrays: Mapping[str, np.ndarray], encoding: Encoding, prefix: str = "") -> tuple[Any, int]:
    """Return the feature map whose array has a prefix, or None, and the number of features with those of the map."""
    features, n_features = features_of(arrays, prefix), encoding.n_features
    if features is None:
        return None, n_features
    if features.n_features != n_features:
        raise InputError(f"the feature map has {features.n_features} features, but the encoding has {n_features}")
    return features, n_features + features.n_mapped


def _linear_policy(
    encoding: Encoding,
    n_features: int,
    coef: np.ndarray,
    intercept: np.ndarray | None = None,
    features: Any = None,
    of_class: type[LinearPolicy] | None = None,
) -> LinearPolicy:
    """Return the policy with these coefficients; InputError unless it has the features and the actions of the file."""
    expected = n_features, *encoding.actions.shape
    if coef.shape != expected:
        raise InputError(f"coef has shape {coef.shape}, expected {expected}: the features and actions of the encoding")
    return (of_class or class_for(encoding.actions))(coef, intercept, features)


def _cost_model(encoding: Encoding, arrays: Mapping[str, np.ndarray], header: Any) -> SupportedModel | None:
    """Return the cost model and π0, which use a feature map if the file has one."""
    if header is None:
        return None
    features, n_features = _feature_map(arrays, encoding)
    effect_shape = encoding.actions.effect_shape
    shapes = {"logging.intercept": encoding.actions.shape, "cost.intercept": effect_shape}
    shapes["cost.coef"] = n_features, *effect_shape
    if wrong := [name for name, shape in shapes.items() if name in arrays and arrays[name].shape != shape]:
        raise InputError(f"{wrong[0]} has shape {arrays[wrong[0]].shape}, expected {shapes[wrong[0]]}")
    known = _linear_policy(encoding, n_features, arrays["logging.coef"], arrays["logging.intercept"])
    known = known.with_exploration(header.get("explore", 0.0))
    if "cost.model" in arrays:
        model: Any = from_bytes(arrays["cost.model"], RegressorModel, "the cost model")
    else:
        model = CostModel()
        model.coef_, model.intercept_ = (as_float_array(arrays[name], name) for name in ("cost.coef", "cost.intercept"))
    logging = LoggingPolicy(known, header["support"], arrays.get("logging.is_supported"), header["is_imitated"])
    supported = SupportedModel(model, logging, tuple(header["limits"]))
    return supported.with_features(features) if features else supported


def _cells(arrays: Mapping[str, np.ndarray], encoding: Encoding) -> MissingCells | None:
    """Return the cells without actions; InputError unless they have the features of the encoding."""
    if f"{CELLS}action" not in arrays:
        return None
    action, low, high = (arrays[f"{CELLS}{name}"] for name in ("action", "low", "high"))
    shape = len(action), encoding.n_features
    if not low.shape == high.shape == shape:
        raise InputError(f"the cells without actions are not {shape[0]} boxes of {shape[1]} features")
    return MissingCells(action, low, high)


def _learned_rows(arrays: Mapping[str, np.ndarray]) -> LearnedRows:
    """Return the hashes of the rows; InputError if the file has none."""
    arrays = {name.removeprefix(ROWS): array for name, array in arrays.items() if name.startswith(ROWS)}
    if "keys" not in arrays:
        raise InputError("the policy file has no hashes of the rows that it was learned from: learn the policy again")
    return LearnedRows.of_arrays(arrays)
