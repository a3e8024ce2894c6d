"""The arguments of commands: functions named like the commands, whose docstrings are the descriptions in --help.

Nothing here imports numpy: --help must not wait for it.
"""

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from drcrm.errors import InputError
from drcrm.logs.unique_keys import parse_json


def learn(parser: argparse.ArgumentParser) -> None:
    """Learn a policy from a log, and decide whether it is better than the logging policy.

    Reads   LOG: CSV, Parquet, npz, Vowpal Wabbit text or dsjson, or a folder of files of one format other than npz;
            --config: the mapping, YAML or JSON.
    Writes  --output: the policy, npz; --report: the page, HTML; --json: the answer. learn encodes a large log in a
            temporary folder next to the output.

    learn holds out a part of the log. Algorithms, radii and feature maps compete on the held-out rows, and the
    certificate counts all of them. If no candidate is shown to be better, learn writes an estimate of the logging
    policy.
    """
    _add_log(parser)
    what = "npz to write; - is standard output"
    parser.add_argument("--output", required=True, type=Path, metavar="POLICY", help=what)
    _add_answers(parser)
    _add_seed(parser, "of the split into training and held-out rows")
    _add_cluster(parser)


def evaluate_policy(parser: argparse.ArgumentParser) -> None:
    """Estimate what a policy would have cost, and say whether the log can tell.

    Reads   POLICY: the file of a learned policy, or column:NAME, a column of LOG with the policy's probability of the
            logged action; LOG; --config: the mapping, by default that of the learned policy.
    Writes  --report: the page, HTML; --json: the answer.
    """
    _add_policy(parser)
    _add_answers(parser)


def certify(parser: argparse.ArgumentParser) -> None:
    """Bound the cost of a policy, and its difference to the logging policy's cost, at a stated confidence.

    Reads   POLICY, LOG, --config: the same as evaluate_policy.
    Writes  --report: the page, HTML; --json: the answer.

    If a check fails, the answer says so and has no certificate. On the log that the policy was learned from, only the
    held-out rows certify it, at level δ/K for K candidates. On another log all rows do, at level δ.
    """
    _add_policy(parser)
    parser.add_argument("--estimate", choices=("dr", "snips", "ips"), help="dr where the policy has a cost model")
    _add_answers(parser)


def diagnose(parser: argparse.ArgumentParser) -> None:
    """Check a log: its propensities, repeated rows, drift, and how much a cost model explains.

    Reads   LOG; --config: the mapping, YAML or JSON.
    Writes  --report: the page, HTML; --json: the answer.
    """
    _add_log(parser)
    _add_answers(parser)


def predict(parser: argparse.ArgumentParser) -> None:
    """Choose actions by a learned policy: draw them, or take the most probable ones.

    Reads   POLICY: the file of a learned policy; CONTEXTS: a file or folder in the format of the log. predict reads
            only the features, one chunk at a time.
    Writes  --output: CSV or Parquet with one row for each context: the action and its propensity, from which you can
            learn again. The action has the column and the names of the log. Label vectors have a column for each label.
            An action of a list is its place in the list, from 0.

    In CSV, an apostrophe precedes names that a spreadsheet would run as a formula, such as =1+1. drcrm removes the
    apostrophe when it reads actions from CSV. Parquet, and CSV with --raw-names, have no apostrophe.

    The certificate covers actions drawn from the policy. It does not cover --greedy.
    """
    parser.add_argument("policy", metavar="POLICY", type=Path, help="npz from learn")
    parser.add_argument("contexts", metavar="CONTEXTS", type=Path, help="a file of the log's format")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="CSV or Parquet; - is CSV on stdout")
    what = "take the most probable actions, which the certificate does not cover"
    parser.add_argument("--greedy", action="store_true", help=what)
    what = "write CSV without an apostrophe in front of names that a spreadsheet would run as a formula"
    parser.add_argument("--raw-names", action="store_true", help=what)
    what = "choose this share of the actions uniformly at random, so that you can learn from the new log (0)"
    parser.add_argument("--explore", type=_share, default=0.0, metavar="SHARE", help=what)
    _add_seed(parser, "of the drawn actions")


def _add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG", type=Path, help="CSV, Parquet, npz, Vowpal Wabbit's text or dsjson")
    what = "the mapping, which describes the columns: a file of YAML or JSON, or JSON itself"
    parser.add_argument("--config", type=_mapping, metavar="FILE", help=what)


def _add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", metavar="POLICY", help="npz from learn, or column:NAME of the log")
    _add_log(parser)


def _add_answers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", type=Path, metavar="HTML", help="write the page; - is standard output")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer as JSON; - is standard output")
    parser.add_argument("--confidence", type=_confidence, default=0.95, help="of bounds and intervals (0.95)")
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="threads; -1 takes all cores (1)")
    parser.add_argument("--verbose", action="store_true", help="print how long each part took")


def _add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--seed", type=_seed, default=0, help=f"seed {what} (0)")


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    what = "address of a Dask scheduler, tcp://HOST:PORT; its workers need access to the folder of the output"
    parser.add_argument("--cluster", metavar="ADDRESS", help=what)


def _mapping(text: str) -> Path | dict:
    if not text.lstrip().startswith("{"):
        return Path(text)
    try:
        return parse_json(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _share(text: str) -> float:
    return _checked(text, float, lambda value: 0 <= value <= 1, "a number from 0 to 1")


def _confidence(text: str) -> float:
    return _checked(text, float, lambda value: 0.5 < value < 1, "a number above ½ and below 1")


def _jobs(text: str) -> int:
    return _checked(text, int, bool, "a whole number that is not 0")


def _seed(text: str) -> int:
    expected = "a whole number from 0 to 2³² − 1"
    return _checked(text, int, lambda value: text.isdecimal() and value < 2**32, expected)


def _checked(text: str, number: type, fits: Callable, expected: str) -> float:
    with suppress(ValueError):
        if fits(value := number(text)):
            return value
    raise argparse.ArgumentTypeError(f"{text!r}, expected {expected}")
