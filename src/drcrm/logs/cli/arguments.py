"""The commands' descriptions and options, as a table for argparse.

Nothing here imports numpy, so that --help is fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drcrm.errors import InputError
from drcrm.mapping.checks import parse_json

Option = tuple[str, dict[str, Any]]  # a flag, and the keyword arguments of add_argument


@dataclass(frozen=True)
class Command:
    """A command: its texts for --help, its options, and the module of this package that has its function."""

    description: str
    options: Sequence[Option]
    epilog: str = "On a terminal, the command shows on standard error what it is doing and how much is left."
    module: str = "questions"


class OneOrMore(argparse.Action):
    """Store a single value as it is, and several values as a list."""

    def __call__(self, parser: object, namespace: object, values: Any, option_string: object = None) -> None:
        setattr(namespace, self.dest, values[0] if len(values) == 1 else values)


def parse_mapping(text: str) -> object:
    """Return the path of a mapping, or the mapping itself if the text is JSON."""
    if not text.lstrip().startswith("{"):
        return Path(text)
    try:
        return parse_json(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_delimiter(text: str) -> str:
    """Return the delimiter of a CSV file; ``tab`` is a tabulator."""
    if text not in ("tab", ",", ";", "\t", "|"):
        raise argparse.ArgumentTypeError(f"{text!r}, expected one of , ; | tab")
    return "\t" if text == "tab" else text


def option(flag: str, help: str, **settings: Any) -> Option:
    return flag, {"help": help, **settings}


def switch(flag: str, help: str) -> Option:
    return option(flag, help, action="store_true")


def path(flag: str, metavar: str, help: str, **settings: Any) -> Option:
    return option(flag, help, type=Path, metavar=metavar, **settings)


def number_type(number: Callable, is_valid: Callable, expected: str) -> Callable[[str], float]:
    """Return an argparse type for numbers with a condition; ``expected`` describes valid numbers in its message."""

    def parse(text: str) -> float:
        with suppress(ValueError):
            if is_valid(value := number(text)):
                return value
        raise argparse.ArgumentTypeError(f"{text!r}, expected {expected}")

    return parse


SEED = {"type": number_type(int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 2³² − 1"), "default": 0}
POLICY_OR_COLUMN = "npz from learn, or column:NAME of the log"
SEVERAL: dict[str, Any] = {"nargs": "+", "action": OneOrMore}
LOG = path(
    "log", "LOG", "CSV, Parquet, npz, Vowpal Wabbit text or dsjson: a file, a folder, or several of them", **SEVERAL
)
CONFIG = option(
    "--config",
    "the mapping, which describes the columns: a YAML or JSON file, or the JSON text itself",
    type=parse_mapping,
    metavar="FILE",
)
POLICY = option("policy", POLICY_OR_COLUMN, metavar="POLICY")
POLICY_FILE = path("policy", "POLICY", "npz from learn")
ANSWERS = (
    path("--report", "HTML", "write the report; - is standard output"),
    path("--json", "FILE", "write the answer as JSON; - is standard output"),
    option(
        "--confidence",
        "confidence level of bounds and intervals (0.95)",
        type=number_type(float, lambda value: 0.5 < value < 1, "a number above ½ and below 1"),
        default=0.95,
    ),
    option(
        "--jobs",
        "threads; -1 takes all cores (1)",
        type=number_type(int, bool, "a whole number that is not 0"),
        default=1,
        metavar="N",
    ),
    switch("--verbose", "print how long each part took"),
)
COMPARISON = (
    path("--baseline", "POLICY", "compare with this policy, npz from learn, instead of the logging policy"),
    option(
        "--fail-unless",
        "exit with status 3 if the verdict is 'worse' or 'the log is wrong' or a guardrail is violated, and with "
        "status 4 if it is 'the log cannot say'. With `better`, 'not shown' gives status 4, and so does 'better' with "
        "estimated propensities, unless the mapping trusts them. All files are written in any case",
        choices=("better", "not-worse"),
    ),
    option(
        "--sensitivity",
        "also bound the difference for propensities whose odds are off by at most this factor",
        type=number_type(float, lambda value: 1 <= value < float("inf"), "a number of at least 1"),
        metavar="FACTOR",
    ),
    option(
        "--shift",
        "compare the worst cases over environments within this KL divergence, like the mapping's key shift",
        type=number_type(float, lambda value: 0 < value < float("inf"), "a number above 0"),
        metavar="KAPPA",
    ),
    *ANSWERS,
)
COMMANDS = {
    "example": Command(
        """Write example logs into a folder, and print the next command.

Writes  shop.csv, a log of a shop with the mapping shop.yaml; later.csv, a log of later visits; rule.csv, the log of a
        deterministic rule; and shop.dsjson, a log in a format of Vowpal Wabbit. No file is overwritten.""",
        [path("folder", "DIR", "folder for the files; . is the current folder")],
        epilog="",
        module="example",
    ),
    "init": Command(
        """Propose a mapping, which describes the columns of a log, from their names and values.

Reads   LOG: the first rows of a CSV, JSON or Parquet file, or of the first of several files.
Writes  --output: the mapping, YAML. A key is set if the name and the values of one column fit it. For other keys,
        comments list columns that may fit. Check each line. No file is overwritten.""",
        [
            path("log", "LOG", "CSV, JSON lines or Parquet: a file, a folder, or several of them", **SEVERAL),
            path("--output", "MAPPING", "YAML (- is standard output)", default=Path("-")),
            option(
                "--delimiter",
                "delimiter of a CSV file, if it is not detected: one of , ; | tab",
                type=parse_delimiter,
                metavar="CHARACTER",
            ),
            option("--encoding", "encoding of a CSV file, such as cp1252 (UTF-8)", metavar="NAME"),
        ],
        epilog="",
        module="init",
    ),
    "learn": Command(
        """Learn a policy from a log, and decide whether it is better than the logging policy.

Reads   LOG: CSV, Parquet, npz, Vowpal Wabbit text or dsjson; or files and folders of one of these formats except npz;
        --config: the mapping, YAML or JSON.
Writes  the answer, on standard output; --output: the policy, npz; --report: the report, HTML; --json: the answer in
        JSON. learn encodes a large log in a temporary folder next to the output.

learn fits candidates, which differ in algorithm and hyper-parameter, and compares them with the logging policy on
held-out rows. Its certificate, a bound on the cost, is adjusted for the number of candidates. If no candidate is shown
to be better than the logging policy, learn writes an estimate of the logging policy to --output, and the best candidate
to --best. On rows that are logged later, certify may show that this candidate is better.""",
        [
            LOG,
            CONFIG,
            path("--output", "POLICY", "the learned policy, npz; - is standard output", required=True),
            path(
                "--best",
                "POLICY",
                "the best candidate, npz, if it is not shown to be better; by default the name of --output with "
                ".candidate before the suffix; it replaces a policy, and no other file",
            ),
            switch(
                "--exportable",
                "fit only linear policies and trees, which `drcrm export` can write for other systems; by default "
                "learned scores may win, which it cannot write; nor can it write policies on lists",
            ),
            switch("--readable", "consider only policy trees and single actions, which people can read"),
            switch(
                "--curve",
                "also estimate what policy trees gain within other values of each limit, budget and guardrail of the "
                "mapping, from tight to without effect",
            ),
            *COMPARISON,
            option(
                "--validation",
                "test the best candidate on held-out rows, or the way of learning on blocks of rows: by default as in "
                "the mapping",
                choices=("holdout", "blocks"),
            ),
            option(
                "--deploy",
                "with blocks, write the policy that is learned from all rows, or the mixture of the policies of the "
                "blocks: by default as in the mapping",
                choices=("refit", "mixture"),
            ),
            option(
                "--seed", "seed of the split into training and held-out rows, or of the order of blocks (0)", **SEED
            ),
            option(
                "--cluster",
                "Dask scheduler, tcp://HOST:PORT; its workers need access to the output's folder",
                metavar="ADDRESS",
            ),
        ],
    ),
    "evaluate_policy": Command(
        """Estimate what a policy would have cost, and say whether the log is good enough for the estimate.

Reads   POLICY: the file of a learned policy, or column:NAME, a column of LOG with the policy's probability of the
        logged action; LOG: the same as learn; --config: the mapping, by default that of the learned policy.
Writes  the answer, on standard output; --report: the report, HTML; --json: the answer in JSON.""",
        [POLICY, LOG, CONFIG, *COMPARISON],
    ),
    "certify": Command(
        """Bound the cost of a policy, and its difference from the logging policy's cost, at a stated confidence.

Reads   POLICY, LOG, --config: the same as evaluate_policy.
Writes  the answer, on standard output; --report: the report, HTML; --json: the answer in JSON.

The bound is a certificate. If a check fails, the answer says so and has no certificate. On a new log, all rows certify
the policy. On the log that the policy was learned from, only the held-out rows do. The certificate is then adjusted
for the K candidates of learn: the error probability, 1 − confidence, is divided by K.""",
        [
            POLICY,
            LOG,
            CONFIG,
            option(
                "--estimate",
                "dr is doubly robust, ips uses importance weights, snips normalises them; by default dr if the policy "
                "has a cost model, else snips; --anytime has bounds by ips, or dr with --asymptotic",
                choices=("dr", "snips", "ips"),
            ),
            switch(
                "--anytime",
                "bounds by ips that hold at every look together, for a log that grows and is certified again; needs "
                "cost_range in the mapping unless outcomes are 0 and 1, or 0 and -1",
            ),
            switch(
                "--asymptotic",
                "with --anytime: narrower bounds, which need no range of outcomes but hold only asymptotically; by dr "
                "if the policy has a cost model, else ips",
            ),
            option(
                "--candidates",
                "with --anytime: further policies on the same rows; the answer says which of all can still be the "
                "best, and is about the one with the best bound",
                nargs="+",
                metavar="POLICY",
            ),
            *COMPARISON,
        ],
    ),
    "plan": Command(
        """Compute which differences the next log can show, by its number of rows.

Reads   LOG, --config: the same as learn; --policy: the policy to test, like POLICY of evaluate_policy.
Writes  the plan, on standard output; --json: the plan in JSON.

For 1 to 8 times today's rows, the plan has the smallest difference from the logging policy that 80 % of all logs show.
Without --policy, it is for the single action that is hardest to test. Differences are for one look at the next log;
certify --anytime needs more rows.""",
        [
            LOG,
            CONFIG,
            option("--policy", POLICY_OR_COLUMN, metavar="POLICY"),
            option(
                "--choices",
                "number of candidates that will compete on the next log: 1 for certify (1)",
                type=number_type(int, lambda value: 0 < value <= 10**6, "a whole number from 1 to 10⁶"),
                default=1,
                metavar="K",
            ),
            *ANSWERS[1:],
        ],
    ),
    "diagnose": Command(
        """Check a log: its propensities, repeated rows, changes over time, and how well a model predicts the cost.

Reads   LOG, --config: the same as learn.
Writes  the answer, on standard output; --report: the report, HTML; --json: the answer in JSON.""",
        [LOG, CONFIG, *ANSWERS],
    ),
    "predict": Command(
        """Choose actions by a learned policy: draw them, or take the most probable ones (--greedy).

Reads   POLICY: the file of a learned policy; CONTEXTS: files or folders in the format of the log. predict reads
        only the features, one chunk at a time.
Writes  --output: CSV or Parquet with one row for each context: the columns of --keep, the action and its propensity.
        With the rewards, these rows are a new log. The action has the column name and the values of the log that the
        policy was learned from. Label vectors have a column for each label. An action of a list is written as its
        position in the list, from 0.

Spreadsheets run texts of a CSV file such as =1+1. With --escape-formulas, predict writes an apostrophe in front of
them. Such texts are other actions for drcrm.

The certificate covers actions drawn from the policy with the share of uniform actions that learn stored. It covers
neither --greedy nor another share by --explore.""",
        [
            POLICY_FILE,
            path("contexts", "CONTEXTS", "files or folders in the log's format", **SEVERAL),
            path("--output", "FILE", "CSV or Parquet; - is CSV on standard output", required=True),
            option(
                "--keep",
                "write a column of CONTEXTS too, such as an ID; can be repeated",
                action="append",
                default=[],
                metavar="COLUMN",
            ),
            switch("--greedy", "take the most probable actions, which the certificate does not cover"),
            switch("--escape-formulas", "write CSV with an apostrophe in front of texts that look like formulas"),
            option(
                "--explore",
                "draw this share of the actions uniformly, so that the new log has information about all actions; by "
                "default the share that learn stored, or 0 with --greedy",
                type=number_type(float, lambda value: 0 <= value <= 1, "a number from 0 to 1"),
                metavar="SHARE",
            ),
            option("--seed", "seed of the drawn actions (0)", **SEED),
        ],
        module="predict_export",
    ),
    "export": Command(
        """Write a linear policy or a policy tree as JSON, a SQL query, or a Python function without imports.

Reads   POLICY: the file of a policy that `drcrm learn --exportable` wrote for CSV or Parquet. Without this option,
        learn may choose learned scores, which cannot be exported. Nor can policies on lists of actions.
Writes  --output: as JSON, the coefficients, scaling, categories and names of actions of a linear policy, or the splits
        of a tree; in SQL and Python, the probability of each action. The page "Serving" describes the forms.""",
        [
            POLICY_FILE,
            path("--output", "FILE", "- is standard output", required=True),
            option("--format", "json (default), sql or python", choices=("json", "sql", "python"), default="json"),
        ],
        module="predict_export",
    ),
}
