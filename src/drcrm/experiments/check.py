"""``drcrm check``: check the configuration of experiments before anything runs."""

import argparse

from drcrm.experiments.config import check_target, project_config


def run(options: argparse.Namespace) -> None:
    """Check the configuration. The message of the InputError has a line for each fault."""
    config = project_config(options.project, options.configfile)
    if options.experiment:
        check_target(options.experiment, config)
