"""The file of a learned policy: npz with a header in JSON, and no pickles.

The header has the mapping, the encoding, the algorithm and the digest of the log, so that no other command needs them.
The arrays are those of the policy, of its feature map, of the cost model with π0, and hashes of the log's rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drcrm.arrays.validation import as_float_array, check_coefficients
from drcrm.cost_models.ridge_model import CostModel
from drcrm.cost_models.support import SupportedModel
from drcrm.diagnostics.repeated_rows.recognition import LearnedRows
from drcrm.errors import InputError, prefix_errors
from drcrm.files import read_npz, write_npz
from drcrm.logs.encoding.registry import Encoding, encoding_of
from drcrm.logs.readers.log_files import files_of
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy

FORMAT = 1
KINDS = {"labels": (ExponentialPolicy, 2), "single": (SoftmaxPolicy, 2), "lists": (SoftmaxPolicy, 1)}  # dim. of coef
BLOCK = 1 << 20  # bytes
ROWS = "rows."  # with which the names of the arrays of LearnedRows begin


@dataclass(frozen=True)
class StoredPolicy:
    """A learned policy, what makes its features of a user's columns, and what it was learned with.

    Attributes
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
        Over X as the encoding makes it.
    encoding : Encoding
    model : SupportedModel or None
        The cost model of the training part, with π0, or an imitation.
    rows : LearnedRows or None
        Hashes of the rows of the log.
    header : mapping
        JSON: ``mapping``, ``algorithm``, ``seed``, ``split``, ``choices``, ``confidence``, ``digest``, ``verdict`` …
    """

    policy: LinearPolicy
    encoding: Encoding
    model: SupportedModel | None
    header: Mapping[str, object]
    rows: LearnedRows | None = None


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes; of a folder, that of its files' digests, by their names.

    InputError where it cannot be read.
    """
    path, found = Path(path), hashlib.sha256()
    if path.is_dir():
        for each in files_of(path):
            found.update(bytes.fromhex(digest(each)))
        return found.hexdigest()
    try:
        with open(path, "rb") as stream:
            while block := stream.read(BLOCK):
                found.update(block)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None
    return found.hexdigest()


def write_policy(path: str | Path, stored: StoredPolicy) -> None:
    """Write a policy's file, whole or not at all."""
    header = {**stored.header, "format": FORMAT, "encoding": stored.encoding.as_dict()}
    arrays = {"coef": stored.policy.coef}
    if stored.policy.features:
        arrays |= {f"features.{name}": array for name, array in stored.policy.features.to_arrays().items()}
    if stored.rows is not None:
        arrays |= {f"{ROWS}{name}": array for name, array in stored.rows.arrays().items()}
    if (model := stored.model) is not None:
        header["model"] = {"support": model.support, "limits": list(model.limits), "is_imitated": model.is_cloned}
        arrays |= {"cost.coef": model.model.coef_, "cost.intercept": np.asarray(model.model.intercept_)}
        arrays |= {"logging.coef": model.logging_policy.coef, "logging.intercept": model.logging_policy.intercept}
    write_npz(path, header=np.array(json.dumps(header, ensure_ascii=False, allow_nan=False)), **arrays)


def read_policy(path: str | Path, with_rows: bool = False) -> StoredPolicy:
    """Read a policy's file, and on request the hashes of its log's rows, which files of older versions lack.

    InputError for one that is cut off, of another version, or none.
    """
    header, arrays = _read(path, with_rows)
    with prefix_errors(path):
        encoding = encoding_of(header.get("encoding"))
        policy = _policy(encoding.kind, arrays)
        model = _model(encoding.kind, arrays, header.get("model"), policy.features)
        if policy.n_features != encoding.n_features:
            raise InputError(f"the policy has {policy.n_features} features, its encoding {encoding.n_features}")
        rows = _rows(arrays)
    return StoredPolicy(policy, encoding, model, header, rows)


def _rows(arrays: Mapping[str, np.ndarray]) -> LearnedRows | None:
    arrays = {name.removeprefix(ROWS): array for name, array in arrays.items() if name.startswith(ROWS)}
    try:
        return LearnedRows.of_arrays(arrays) if arrays else None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the hashes of its rows are cut off, or from another version: {error}") from None


def _read(path: str | Path, with_rows: bool) -> tuple[dict, dict[str, np.ndarray]]:
    """The header and the arrays of a policy's file."""
    text = read_npz(path, ["header"])["header"]
    with prefix_errors(path):
        try:
            header = json.loads(str(text))
        except json.JSONDecodeError:
            header = None
        if not isinstance(header, dict) or "format" not in header:
            raise InputError("no policy of drcrm learn: its header is not JSON with a format")
        if header["format"] != FORMAT:
            raise InputError(f"the policy's file is of format {header['format']!r}, expected {FORMAT}")
    with np.load(path, allow_pickle=False) as archive:
        names = [name for name in archive.files if name != "header" and (with_rows or not name.startswith(ROWS))]
    return header, read_npz(path, ["coef", *names])


def _policy(kind: str, arrays: Mapping[str, np.ndarray]) -> LinearPolicy:
    features = {name.removeprefix("features."): each for name, each in arrays.items() if name.startswith("features.")}
    if not features:
        return _linear(kind, arrays["coef"])
    from drcrm.policies.feature_maps import FeatureMap  # imports scikit-learn, which takes half a second

    try:
        features = FeatureMap.from_arrays(features)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(f"the feature map is cut off, or from another version: {error}") from None
    return _linear(kind, arrays["coef"], features=features)


def _linear(kind: str, coef: np.ndarray, intercept: np.ndarray | None = None, features=None) -> LinearPolicy:
    """A policy of coefficients in a file."""
    (made, dimensions), coef = KINDS[kind], as_float_array(coef, "coef")
    if coef.ndim != dimensions:
        raise InputError(f"coef has shape {coef.shape}, expected {dimensions} dimensions")
    return made(coef, intercept, features)


def _model(kind: str, arrays: Mapping[str, np.ndarray], said: object, features) -> SupportedModel | None:
    """The cost model, over what the policy's scores are linear in."""
    if said is None:
        return None
    try:
        low, high = map(float, said["limits"])
        support, is_imitated = float(said["support"]), bool(said["is_imitated"])
        model = CostModel()
        model.coef_, model.intercept_ = as_float_array(arrays["cost.coef"], "cost.coef"), arrays["cost.intercept"]
        logging = _linear(kind, arrays["logging.coef"], arrays["logging.intercept"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the cost model is cut off, or from another version: {error}") from None
    check_coefficients(np.atleast_2d(model.coef_))
    return SupportedModel(model, logging, support, (low, high), features, is_imitated)
