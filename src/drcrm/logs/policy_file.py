"""File of a learned policy: npz with a JSON header, without pickles.

The header has the mapping, the encoding, the algorithm and the digest of the log, so that other commands need no
configuration. The arrays are the policy, its feature map, the cost model with π0, and hashes of the log's rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.arrays.stored_estimators import from_bytes, to_bytes
from drcrm.arrays.validation import as_float_array, check_coefficients
from drcrm.cost_models.regressor_model import RegressorModel
from drcrm.cost_models.ridge_model import CostModel
from drcrm.cost_models.support import SupportedModel
from drcrm.errors import InputError, prefix_errors
from drcrm.files import read_npz, write_npz
from drcrm.logs.encoding.arrays import ArrayEncoding
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.encoding.hashed_features import HashedEncoding
from drcrm.logs.encoding.listed_tables import ListedTableEncoding
from drcrm.logs.encoding.tables import TableEncoding
from drcrm.logs.readers.log_files import Source, files_of
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy
from drcrm.rows.recognition import LearnedRows

FORMAT = 1
POLICIES = {"labels": (ExponentialPolicy, 2), "single": (SoftmaxPolicy, 2), "lists": (SoftmaxPolicy, 1)}  # coef.ndim
ENCODINGS = {"table": TableEncoding, "listed table": ListedTableEncoding, "arrays": ArrayEncoding}
ENCODINGS |= {"named": HashedEncoding, "lists": HashedEncoding}
FEATURES, ROWS = "features", "rows."  # the array of a FeatureMap, and the prefix of the arrays of LearnedRows


@dataclass(frozen=True)
class StoredPolicy:
    """A learned policy with the encoding of its features and the results of the fit.

    Attributes
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
        Policy on the features X of the encoding.
    encoding : Encoding
    model : SupportedModel or None
        Cost model of the training rows, with π0 or its clone.
    header : mapping
        JSON: ``mapping``, ``algorithm``, ``seed``, ``split``, ``choices``, ``confidence``, ``digest``, ``verdict`` …
    rows : LearnedRows or None
        Hashes of the rows of the log.
    """

    policy: LinearPolicy
    encoding: Encoding
    model: SupportedModel | None
    header: Mapping[str, object]
    rows: LearnedRows | None = None


def digest(source: Source) -> str:
    """Return the SHA-256 of a file's bytes; for a folder or several files, of the digests of its files.

    Raise InputError if a file cannot be read.
    """
    if not isinstance(source, str | Path) or Path(source).is_dir():
        return hashlib.sha256(b"".join(bytes.fromhex(digest(file)) for file in files_of(source))).hexdigest()
    try:
        with open(source, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None


def write_policy(path: str | Path, stored: StoredPolicy) -> None:
    """Write the file of a policy, completely or not at all."""
    header = {**stored.header, "format": FORMAT, "encoding": stored.encoding.as_dict()}
    arrays = {"coef": stored.policy.coef}
    if stored.policy.features:
        arrays[FEATURES] = to_bytes(stored.policy.features, "the feature map")
    if stored.rows is not None:
        arrays |= {f"{ROWS}{name}": array for name, array in stored.rows.arrays().items()}
    model: Any = stored.model
    if model is not None:
        header["model"] = {"support": model.support, "limits": list(model.limits), "is_imitated": model.is_cloned}
        if model.is_supported is not None:
            arrays["logging.is_supported"] = model.is_supported
        if isinstance(model.model, RegressorModel):
            arrays["cost.model"] = to_bytes(model.model, "the cost model")
        else:
            arrays |= {"cost.coef": model.model.coef_, "cost.intercept": np.asarray(model.model.intercept_)}
        arrays |= {"logging.coef": model.logging_policy.coef, "logging.intercept": model.logging_policy.intercept}
    write_npz(path, header=np.array(json.dumps(header, ensure_ascii=False, allow_nan=False)), **arrays)


def read_policy(path: str | Path, with_rows: bool = False) -> StoredPolicy:
    """Return the policy in a file; on request with the hashes of its log's rows, which files of old versions lack.

    Raise InputError if the file is truncated, of another version, or not a policy.
    """
    header, arrays = _read(path, with_rows)
    with prefix_errors(path):
        encoding = encoding_of(header.get("encoding"))
        with _complete("feature map"):
            features = _feature_map(arrays)
        policy = _linear_policy(encoding.kind, arrays["coef"], features=features)
        with _complete("cost model"):
            model = _cost_model(encoding.kind, arrays, header.get("model"), features)
        if policy.n_features != encoding.n_features:
            raise InputError(f"the policy has {policy.n_features} features, but its encoding has {encoding.n_features}")
        rows = _part(arrays, ROWS)
        with _complete("hashes of the rows"):
            learned_rows = LearnedRows.of_arrays(rows) if rows else None
    return StoredPolicy(policy, encoding, model, header, learned_rows)


@contextmanager
def _complete(name: str) -> Iterator[None]:
    """Raise InputError if a part of the file lacks content."""
    try:
        yield
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(f"the {name} is truncated or from another version: {error}") from None


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _read(path: str | Path, with_rows: bool) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the header and the arrays of a file."""
    text = read_npz(path, ["header"])["header"]
    with prefix_errors(path):
        try:
            header = json.loads(str(text))
        except json.JSONDecodeError:
            header = None
        if not isinstance(header, dict) or "format" not in header:
            raise InputError("is not a policy from drcrm learn: its header is not JSON with a format")
        if header["format"] != FORMAT:
            raise InputError(f"the policy file has format {header['format']!r}, expected {FORMAT}")
    with np.load(path, allow_pickle=False) as archive:
        names = [name for name in archive.files if name != "header" and (with_rows or not name.startswith(ROWS))]
    return header, read_npz(path, ["coef", *names])


def encoding_of(content: Any) -> Encoding:
    """Return the encoding with the content that ``as_dict`` returned; InputError for any other content."""
    name = content.get("of") if isinstance(content, Mapping) else None
    if not isinstance(name, str) or name not in ENCODINGS:
        raise InputError(f"encoding is of type {name!r}, expected one of {', '.join(ENCODINGS)}")
    try:
        return ENCODINGS[name](**{key: value for key, value in content.items() if key != "of"})
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"encoding is truncated or from another version: {type(error).__name__} {error}") from None


def _feature_map(arrays: Mapping[str, np.ndarray]) -> Any:
    if _part(arrays, f"{FEATURES}."):
        raise InputError("the feature map has the form of an older version of drcrm: learn the policy again")
    if FEATURES not in arrays:
        return None
    from drcrm.policies.feature_maps import FeatureMap  # imported here: scikit-learn takes half a second

    features = from_bytes(arrays[FEATURES], FeatureMap, "the feature map")
    features.check()
    return features


def _linear_policy(
    kind: str, coef: np.ndarray, intercept: np.ndarray | None = None, features: Any = None
) -> LinearPolicy:
    (policy_class, dimensions), coef = POLICIES[kind], as_float_array(coef, "coef")
    if coef.ndim != dimensions:
        raise InputError(f"coef has shape {coef.shape}, expected {dimensions} dimensions")
    return policy_class(coef, intercept, features)


def _cost_model(kind: str, arrays: Mapping[str, np.ndarray], header: Any, features: Any) -> SupportedModel | None:
    """Return the cost model, which uses the features of the policy's scores."""
    if header is None:
        return None
    low, high = map(float, header["limits"])
    logging_policy = _linear_policy(kind, arrays["logging.coef"], arrays["logging.intercept"])
    if "cost.model" in arrays:
        model: Any = from_bytes(arrays["cost.model"], RegressorModel, "the cost model")
        model.action_effects(np.zeros((1, len(logging_policy.coef))), logging_policy.actions)  # check its content
    else:
        model = CostModel()
        model.coef_, model.intercept_ = as_float_array(arrays["cost.coef"], "cost.coef"), arrays["cost.intercept"]
        check_coefficients(np.atleast_2d(model.coef_))
    support, is_cloned = float(header["support"]), bool(header["is_imitated"])
    is_supported = arrays.get("logging.is_supported")  # missing in files of old versions
    return SupportedModel(model, logging_policy, support, (low, high), features, is_cloned, is_supported)
