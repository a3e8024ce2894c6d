"""``drcrm check``: check the configuration of experiments before anything runs."""

import argparse
from pathlib import Path

from drcrm.experiments.config import check_target, project_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("experiment", nargs="?", help="name of an experiment that the configuration must have")
    parser.add_argument(
        "--configfile", nargs="*", default=[], metavar="FILE", help="YAML or JSON that is merged into config.yaml"
    )
    parser.add_argument("--project", type=Path, default=Path(), help="folder of config.yaml, by default this one")


def run(options: argparse.Namespace) -> None:
    """Check the configuration; InputError has a line for each fault."""
    config = project_config(options.project, options.configfile)
    if options.experiment:
        check_target(options.experiment, config)
