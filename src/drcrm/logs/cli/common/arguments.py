"""The commands' descriptions and options, as a table for argparse.

Nothing here imports numpy, so that --help is fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drcrm.logs.cli.common.options import (
    ANSWERS,
    BASELINE,
    CONFIG,
    FAIL_UNLESS,
    LOG,
    POLICY,
    READABLE,
    SENSITIVITY,
    SHIFT,
    OneOrMore,
    Option,
    number_type,
    parse_delimiter,
    seed_option,
)


@dataclass(frozen=True)
class Command:
    """A command: its texts for --help, its options, and the package that has its module."""

    summary: str
    description: str
    options: Sequence[Option]
    epilog: str = "On a terminal, the command shows on standard error what it is doing and how much is left."
    package: str = "drcrm.logs.cli"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options to a parser."""
        for flag, settings in self.options:
            parser.add_argument(flag, **settings)


SETUP = "drcrm.logs.cli.setup"
COMMANDS = {
    "example": Command(
        "write example logs, to try the other commands",
        """Write example logs into a folder, and print the next command.

Writes  shop.csv, a log of a shop with the mapping shop.yaml; later.csv, a log of later visits; rule.csv, the log of a
        deterministic rule; and shop.dsjson, a log in a format of Vowpal Wabbit. No file is overwritten.""",
        (("folder", {"metavar": "DIR", "type": Path, "help": "folder for the files; . is the current folder"}),),
        epilog="",
        package=SETUP,
    ),
    "init": Command(
        "propose a mapping, which describes the columns of a log",
        """Propose a mapping, which describes the columns of a log, from their names and values.

Reads   LOG: the first rows of a CSV, JSON or Parquet file, or of the first of several files.
Writes  --output: the mapping, YAML. A key is set if the name and the values of one column fit it. For other keys,
        comments list columns that may fit. Check each line. No file is overwritten.""",
        (
            (LOG[0], {**LOG[1], "help": "CSV, JSON lines or Parquet: a file, a folder, or several of them"}),
            (
                "--output",
                {"type": Path, "default": Path("-"), "metavar": "MAPPING", "help": "YAML (- is standard output)"},
            ),
            (
                "--delimiter",
                {
                    "type": parse_delimiter,
                    "metavar": "CHARACTER",
                    "help": "delimiter of a CSV file, if it is not detected: one of , ; | tab",
                },
            ),
            ("--encoding", {"metavar": "NAME", "help": "encoding of a CSV file, such as cp1252 (UTF-8)"}),
        ),
        epilog="",
        package=SETUP,
    ),
    "learn": Command(
        "learn a policy from a log, and decide whether it is better than the logging policy",
        """Learn a policy from a log, and decide whether it is better than the logging policy.

Reads   LOG: CSV, Parquet, npz, Vowpal Wabbit text or dsjson; or files and folders of one of these formats except npz;
        --config: the mapping, YAML or JSON.
Writes  the answer, on standard output; --output: the policy, npz; --report: the report, HTML; --json: the answer in
        JSON. learn encodes a large log in a temporary folder next to the output.

learn fits candidates, which differ in algorithm and hyper-parameter, and compares them with the logging policy on
held-out rows. Its certificate, a bound on the cost, is adjusted for the number of candidates. If no candidate is shown
to be better than the logging policy, learn writes an estimate of the logging policy to --output, and the best candidate
to --best. On rows that are logged later, certify may show that this candidate is better.""",
        (
            LOG,
            CONFIG,
            (
                "--output",
                {
                    "required": True,
                    "type": Path,
                    "metavar": "POLICY",
                    "help": "the learned policy, npz; - is standard output",
                },
            ),
            (
                "--best",
                {
                    "type": Path,
                    "metavar": "POLICY",
                    "help": "the best candidate, npz, if it is not shown to be better; by default the name of --output "
                    "with .candidate before the suffix; it replaces a policy, and no other file",
                },
            ),
            (
                "--exportable",
                {
                    "action": "store_true",
                    "help": "fit only linear policies and trees, which `drcrm export` can write for other systems; by "
                    "default learned scores may win, which it cannot write; nor can it write policies on lists",
                },
            ),
            READABLE,
            (
                "--curve",
                {
                    "action": "store_true",
                    "help": "also estimate what policy trees gain within other values of each limit, budget and "
                    "guardrail of the mapping, from tight to without effect",
                },
            ),
            BASELINE,
            FAIL_UNLESS,
            SENSITIVITY,
            SHIFT,
            *ANSWERS,
            (
                "--validation",
                {
                    "choices": ("holdout", "blocks"),
                    "help": "test the best candidate on held-out rows, or the way of learning on blocks of rows: by "
                    "default as in the mapping",
                },
            ),
            (
                "--deploy",
                {
                    "choices": ("refit", "mixture"),
                    "help": "with blocks, write the policy that is learned from all rows, or the mixture of the "
                    "policies of the blocks: by default as in the mapping",
                },
            ),
            seed_option("of the split into training and held-out rows, or of the order of blocks"),
            (
                "--cluster",
                {
                    "metavar": "ADDRESS",
                    "help": "Dask scheduler, tcp://HOST:PORT; its workers need access to the output's folder",
                },
            ),
        ),
    ),
    "evaluate_policy": Command(
        "estimate what a policy would have cost, and whether the estimate can be trusted",
        """Estimate what a policy would have cost, and say whether the log is good enough for the estimate.

Reads   POLICY: the file of a learned policy, or column:NAME, a column of LOG with the policy's probability of the
        logged action; LOG: the same as learn; --config: the mapping, by default that of the learned policy.
Writes  the answer, on standard output; --report: the report, HTML; --json: the answer in JSON.""",
        (POLICY, LOG, CONFIG, BASELINE, FAIL_UNLESS, SENSITIVITY, SHIFT, *ANSWERS),
    ),
    "certify": Command(
        "bound the cost of a policy at a stated confidence",
        """Bound the cost of a policy, and its difference from the logging policy's cost, at a stated confidence.

Reads   POLICY, LOG, --config: the same as evaluate_policy.
Writes  the answer, on standard output; --report: the report, HTML; --json: the answer in JSON.

The bound is a certificate. If a check fails, the answer says so and has no certificate. On a new log, all rows certify
the policy. On the log that the policy was learned from, only the held-out rows do. The certificate is then adjusted
for the K candidates of learn: the error probability, 1 − confidence, is divided by K.""",
        (
            POLICY,
            LOG,
            CONFIG,
            BASELINE,
            FAIL_UNLESS,
            (
                "--estimate",
                {
                    "choices": ("dr", "snips", "ips"),
                    "help": "dr is doubly robust, ips uses importance weights, snips normalises them; by default dr if "
                    "the policy has a cost model, else snips; --anytime has bounds by ips, or dr with --asymptotic",
                },
            ),
            (
                "--anytime",
                {
                    "action": "store_true",
                    "help": "bounds by ips that hold at every look together, for a log that grows and is certified "
                    "again; needs cost_range in the mapping unless outcomes are 0 and 1, or 0 and -1",
                },
            ),
            (
                "--asymptotic",
                {
                    "action": "store_true",
                    "help": "with --anytime: narrower bounds, which need no range of outcomes but hold only "
                    "asymptotically; by dr if the policy has a cost model, else ips",
                },
            ),
            (
                "--candidates",
                {
                    "nargs": "+",
                    "metavar": "POLICY",
                    "help": "with --anytime: further policies on the same rows; the answer says which of all can still "
                    "be the best, and is about the one with the best bound",
                },
            ),
            SENSITIVITY,
            SHIFT,
            *ANSWERS,
        ),
    ),
    "plan": Command(
        "compute which differences the next log can show",
        """Compute which differences the next log can show, by its number of rows.

Reads   LOG, --config: the same as learn; --policy: the policy to test, like POLICY of evaluate_policy.
Writes  the plan, on standard output; --json: the plan in JSON.

For 1 to 8 times today's rows, the plan has the smallest difference from the logging policy that 80 % of all logs show.
Without --policy, it is for the single action that is hardest to test. Differences are for one look at the next log;
certify --anytime needs more rows.""",
        (
            LOG,
            CONFIG,
            ("--policy", {"metavar": "POLICY", "help": "npz from learn, or column:NAME of the log"}),
            (
                "--choices",
                {
                    "type": number_type(int, lambda value: 0 < value <= 10**6, "a whole number from 1 to 10⁶"),
                    "default": 1,
                    "metavar": "K",
                    "help": "number of candidates that will compete on the next log: 1 for certify (1)",
                },
            ),
            *ANSWERS[1:],
        ),
    ),
    "diagnose": Command(
        "check the propensities, rows and costs of a log",
        """Check a log: its propensities, repeated rows, changes over time, and how well a model predicts the cost.

Reads   LOG, --config: the same as learn.
Writes  the answer, on standard output; --report: the report, HTML; --json: the answer in JSON.""",
        (LOG, CONFIG, *ANSWERS),
    ),
    "predict": Command(
        "choose actions by a learned policy",
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
        (
            ("policy", {"metavar": "POLICY", "type": Path, "help": "npz from learn"}),
            (
                "contexts",
                {
                    "metavar": "CONTEXTS",
                    "type": Path,
                    "nargs": "+",
                    "action": OneOrMore,
                    "help": "files or folders in the log's format",
                },
            ),
            (
                "--output",
                {
                    "required": True,
                    "type": Path,
                    "metavar": "FILE",
                    "help": "CSV or Parquet; - is CSV on standard output",
                },
            ),
            (
                "--keep",
                {
                    "action": "append",
                    "default": [],
                    "metavar": "COLUMN",
                    "help": "write a column of CONTEXTS too, such as an ID; can be repeated",
                },
            ),
            (
                "--greedy",
                {
                    "action": "store_true",
                    "help": "take the most probable actions, which the certificate does not cover",
                },
            ),
            (
                "--escape-formulas",
                {
                    "action": "store_true",
                    "help": "write CSV with an apostrophe in front of texts that look like formulas",
                },
            ),
            (
                "--explore",
                {
                    "type": number_type(float, lambda value: 0 <= value <= 1, "a number from 0 to 1"),
                    "metavar": "SHARE",
                    "help": "draw this share of the actions uniformly, so that the new log has information about all "
                    "actions; by default the share that learn stored, or 0 with --greedy",
                },
            ),
            seed_option("of the drawn actions"),
        ),
    ),
    "export": Command(
        "write a policy for other systems: JSON, SQL or Python",
        """Write a linear policy or a policy tree as JSON, a SQL query, or a Python function without imports.

Reads   POLICY: the file of a policy that `drcrm learn --exportable` wrote for CSV or Parquet. Without this option,
        learn may choose learned scores, which cannot be exported. Nor can policies on lists of actions.
Writes  --output: as JSON, the coefficients, scaling, categories and names of actions of a linear policy, or the splits
        of a tree; in SQL and Python, the probability of each action. The page "Serving" describes the forms.""",
        (
            ("policy", {"metavar": "POLICY", "type": Path, "help": "npz from learn"}),
            ("--output", {"required": True, "type": Path, "metavar": "FILE", "help": "- is standard output"}),
            (
                "--format",
                {
                    "choices": ("json", "sql", "python"),
                    "default": "json",
                    "help": "json (default), sql or python",
                },
            ),
        ),
    ),
}
