"""Check a configuration, and that it has an experiment: all that is wrong, a line each, before anything runs.

Reads   config.yaml of --project, and --configfile: what is added to it, as Snakemake reads them.
Writes  nothing.
"""

import argparse
from pathlib import Path

from drcrm.experiments.config import project_config, read_configs, unknown_experiment
from drcrm.experiments.steps import require


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", help="its name")
    parser.add_argument("--configfile", nargs="*", default=[], metavar="FILE", help="YAML or JSON, the last one wins")
    parser.add_argument("--project", type=Path, default=Path(), help="folder of the code, by default this one")


def run(options: argparse.Namespace) -> None:
    given = read_configs(options.configfile)
    _, config = project_config(options.project, given, options.configfile)
    if options.experiment:
        fault = unknown_experiment(options.experiment, config)
        require(not fault, fault)
