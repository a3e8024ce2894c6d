"""What the columns of a user's file are: the mapping, as YAML, JSON or a dict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drcrm.arrays.validation import check_choice, to_float
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.readers.csv_format import DELIMITERS, CsvFormat
from drcrm.logs.unique_keys import parse_json, parse_yaml

MODELS = ("softmax",)
SPLIT = re.compile(r"(random|last|group) (\d+(?:\.\d+)?) ?%")
SHARE = 25
COLUMNS = ("action", "propensity", "reward", "cost", "time", "slice", "group", "candidate")
FEATURES = ("numeric", "categorical", "time")
CSV = ("delimiter", "decimal")
LEARNING = ("algorithm", "split", "cost_range", "propensity_model")
KEYS = ("action", "labels", *COLUMNS[1:], "features", *CSV, *LEARNING)
SIGNS = {"delimiter": tuple(DELIMITERS), "decimal": (".", ",")}
NOT_FEATURES = ("action", "labels", "propensity", "reward", "cost", "candidate")


@dataclass(frozen=True)
class LogMapping:
    """What the columns of a log are, and how it is learned from.

    Attributes
    ----------
    action : str, optional
        The column of the logged action, integers or strings.
    labels : tuple of str, optional
        In its place, one column of 0 and 1 for each label.
    propensity : str, optional
        The column of π0(a|x) of the logged action; None where ``propensity_model`` is to imitate it.
    propensity_model : "softmax", optional
    reward, cost : str, optional
        One of them: the column of r, or of c = −r.
    numeric, categorical : tuple of str
        The columns of features; None where the mapping has no ``features``.
    times : tuple of str
        The columns of dates and times whose hour and weekday are features.
    time : str, optional
        The column by which the rows are ordered; by default their order is that of the file.
    slice, group, candidate : str, optional
        Columns by which answers are shown apart; of rows that belong together; of a policy's probability of the logged
        action, to be judged.
    algorithm : str, dict or list of them, optional
    split : str
        "random 25 %", "last 25 %" or "group 25 %": what is held out.
    cost_range : (float, float), optional
        Between which costs are known to be.
    delimiter, decimal : str, optional
        Of CSV; by default they are detected.
    """

    action: str | None = None
    labels: tuple[str, ...] | None = None
    propensity: str | None = None
    propensity_model: str | None = None
    reward: str | None = None
    cost: str | None = None
    numeric: tuple[str, ...] | None = None
    categorical: tuple[str, ...] | None = None
    times: tuple[str, ...] = ()
    time: str | None = None
    slice: str | None = None
    group: str | None = None
    candidate: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    algorithm: str | dict | list | None = None
    split: str = f"random {SHARE} %"
    cost_range: tuple[float, float] | None = None

    @property
    def split_rule(self) -> tuple[str, float]:
        """Return what is held out, "random", "last" or "group", and its share."""
        kind, percent = SPLIT.fullmatch(self.split).groups()
        return kind, float(percent) / 100

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read, each once."""
        single = [getattr(self, key) for key in COLUMNS]
        return list(dict.fromkeys(filter(None, [*single, *(self.labels or ()), *self.feature_columns])))

    @property
    def feature_columns(self) -> tuple[str, ...]:
        return (*(self.numeric or ()), *(self.categorical or ()), *self.times)

    @property
    def number_columns(self) -> list[str]:
        """Return the columns that must have numbers."""
        single = (self.propensity, self.reward, self.cost, self.candidate)
        return list(dict.fromkeys(filter(None, [*single, *(self.labels or ()), *(self.numeric or ())])))

    @property
    def csv_format(self) -> CsvFormat:
        return CsvFormat(self.delimiter, self.decimal)

    def as_dict(self) -> dict:
        """Return the mapping as a user writes it, of what JSON has."""
        kept = {key: getattr(self, key) for key in KEYS if key != "features" and getattr(self, key) is not None}
        if self.numeric is not None:
            kept["features"] = {"numeric": list(self.numeric), "categorical": list(self.categorical)}
            kept["features"] |= {"time": list(self.times)} if self.times else {}
        if self.propensity_model:
            kept["propensity"] = None
        return {key: list(value) if isinstance(value, tuple) else value for key, value in kept.items()}

    def require_table(self) -> LogMapping:
        """Return the mapping; InputError where it lacks what a table needs."""
        if self.action is None and self.labels is None:
            raise InputError("mapping has no action, expected a column's name, or labels")
        if self.reward is None and self.cost is None:
            raise InputError("mapping has no reward, expected a column's name, or cost")
        if self.propensity is None and self.propensity_model is None:
            raise InputError(
                "mapping has no propensity, expected a column's name, or null with propensity_model: softmax"
            )
        if self.numeric is None:
            raise InputError("mapping has no features, expected {numeric: [...], categorical: [...]}, {} for none")
        return self

    def require_no_columns(self, form: str) -> LogMapping:
        """Return the mapping; InputError where it names columns of a file that has none."""
        named = [key for key in KEYS if key not in (*LEARNING, "features", *CSV) and getattr(self, key) is not None]
        if named or self.numeric is not None:
            raise InputError(f"mapping has {(named or ['features'])[0]}, but {form} has no columns that are named")
        return self


def as_mapping(given, name: str = "mapping") -> LogMapping:
    """Return a mapping, of a dict or the path of a YAML or JSON file.

    Parameters
    ----------
    given : dict, str, Path, LogMapping or None
        None is a mapping of nothing, for files that say themselves what they have.
    name : str
        What it is called in errors; of a file, its path.

    Raises
    ------
    InputError
        A file that cannot be read; a key that is unknown, of a wrong type, or in conflict with another.
    """
    if isinstance(given, LogMapping):
        return given
    if isinstance(given, str | Path):
        with prefix_errors(given):
            return as_mapping(_load(Path(given)))
    if given is None:
        return LogMapping()
    if not isinstance(given, Mapping):
        raise InputError(f"{name} is of type {type(given).__name__}, expected a mapping of keys such as action: item")
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        raise InputError(f"{name} has {unknown[0]!r}, expected keys of {', '.join(KEYS)}")
    given = dict(given)
    model = given.pop("propensity_model", None)
    has_null = "propensity" in given and given["propensity"] is None
    values = {key: _column(given.get(key), key) for key in COLUMNS}
    values |= {"labels": _names(given.get("labels"), "labels"), "propensity_model": _model(model, values, has_null)}
    values |= _features(given.get("features"), "features" in given)
    values |= {"algorithm": _algorithm(given.get("algorithm")), "cost_range": _range(given.get("cost_range"))}
    values |= {key: None if given.get(key) is None else check_choice(SIGNS[key], given[key], key) for key in CSV}
    values["split"] = _split(given.get("split"), values["group"])
    _reject_conflicts(values)
    return LogMapping(**values)


def _load(path: Path) -> object:
    """What a YAML or JSON file has."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text, expected a mapping in YAML or JSON") from None
    except ValueError as error:  # a zero byte in a path
        raise InputError(f"cannot be read: {error}") from None
    if path.suffix != ".json":
        import_extra("yaml")
    content = (parse_json if path.suffix == ".json" else parse_yaml)(text)
    if not isinstance(content, Mapping):
        raise InputError("has no mapping of keys such as action: item")
    return content


def import_extra(name: str, extra: str = "logs"):
    """Return a module of an extra; InputError that says how to install it."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise InputError(f"{package} is not installed, expected: pip install 'drcrm[{extra}]'") from None


def _column(value: object, key: str) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise InputError(f"{key} is {value!r}, expected a column's name, in quotes where it is no text")


def _names(value: object, key: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise InputError(f"{key} is {value!r}, expected a list of columns")
    names = tuple(_column(each, f"{key}[{at}]") for at, each in enumerate(value))
    twice = [each for at, each in enumerate(names) if each in names[:at]]
    if twice or None in names:
        raise InputError(f"{key} has {twice[0] if twice else None!r}{' twice' if twice else ''}, expected columns")
    return names


def _model(model: object, values: dict, has_null: bool) -> str | None:
    if model is None:
        if has_null:
            raise InputError("propensity is null, expected a column's name, or propensity_model: softmax beside it")
        return None
    if values["propensity"] is not None:
        raise InputError(f"propensity_model is {model!r}, but propensity is a column; expected one of them")
    return check_choice(MODELS, model, "propensity_model")


def _features(value: object, is_given: bool) -> dict[str, tuple[str, ...] | None]:
    if not is_given:
        return {"numeric": None, "categorical": None, "times": ()}
    if not (isinstance(value, Mapping) and set(value) <= set(FEATURES)):
        raise InputError(f"features is {value!r}, expected {{numeric: [...], categorical: [...], time: [...]}}")
    kinds = {key: _names(value.get(key), f"features.{key}") or () for key in FEATURES}
    kind_of: dict[str, str] = {}
    for kind, names in kinds.items():
        for name in names:
            if kind_of.setdefault(name, kind) != kind:
                raise InputError(f"{name!r} is a {kind_of[name]} and a {kind} feature, expected one of them")
    return {"numeric": kinds["numeric"], "categorical": kinds["categorical"], "times": kinds["time"]}


def _algorithm(value: object, is_listed: bool = False) -> str | dict | list | None:
    if isinstance(value, list | tuple) and value:
        return [_algorithm(each, is_listed=True) for each in value]
    if isinstance(value, str) or (value is None and not is_listed):
        return value
    if not isinstance(value, Mapping):
        raise InputError(
            f"algorithm is {value!r}, expected a name, or estimator, parameter, grid and options; or a list"
        )
    return dict(value)


def _split(value: object, group: str | None) -> str:
    value = f"{'group' if group else 'random'} {SHARE} %" if value is None else value
    match = SPLIT.fullmatch(value) if isinstance(value, str) else None
    if not match or not 0 < float(match[2]) < 100:
        raise InputError(f"split is {value!r}, expected such as 'random 25 %', 'last 25 %' or 'group 25 %'")
    if match[1] == "group" and group is None:
        raise InputError(f"split is {value!r}, but the mapping has no group")
    return value


def _range(value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    ends = tuple(map(to_float, value)) if isinstance(value, list | tuple) else ()
    if len(ends) != 2 or not -float("inf") < ends[0] < ends[1] < float("inf"):
        raise InputError(f"cost_range is {value!r}, expected [least, largest]")
    return ends


def _reject_conflicts(values: dict) -> None:
    """Raise InputError for two keys of one meaning, or a column of two that exclude each other."""
    for one, other in (("action", "labels"), ("reward", "cost")):
        if values[one] is not None and values[other] is not None:
            raise InputError(f"mapping has {one} and {other}, expected one of them")
    if values["labels"] == ():
        raise InputError("labels is [], expected at least one column")
    taken: dict[str, str] = {}
    for key in NOT_FEATURES:
        named = values[key] or ()
        for column in [named] if isinstance(named, str) else named:
            if column in taken:
                raise InputError(f"{column!r} is {taken[column]} and {key}, expected a column each")
            taken[column] = key
    if values["time"] in taken:
        raise InputError(f"{values['time']!r} is {taken[values['time']]} and time, expected another column")
    for kind in ("numeric", "categorical", "times"):
        leaked = [column for column in values[kind] or () if column in taken]
        if leaked:
            raise InputError(f"{leaked[0]!r} is {taken[leaked[0]]} and a feature, which is not known before the choice")
    if values["decimal"] == values["delimiter"] == ",":
        raise InputError("decimal and delimiter are both ',', expected another delimiter")
