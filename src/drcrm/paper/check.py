"""``drcrm check``: check the configuration of experiments before anything runs."""

import argparse

from drcrm.errors import InputError
from drcrm.paper.config import SCHEMA, check_target, project_config


def run(options: argparse.Namespace) -> None:
    """Check the configuration. The message of the InputError has a line for each fault."""
    project = options.project
    if not (project / SCHEMA).exists():
        raise InputError(
            f"{project.resolve()} has no {SCHEMA}: name the folder of drcrm's clone by --project, and your own "
            "configuration by --configfile"
        )
    config = project_config(project, options.configfile)
    if options.experiment:
        check_target(options.experiment, config)
