"""``snakemake --logger drcrm``: on the screen a line for each job that has ended, and what fails."""

import logging
import sys

from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase

from drcrm.experiments.screen import Screen


class LogHandler(LogHandlerBase):
    """Writes what :class:`Screen` says of a run; of a dry run, and with --verbose, what Snakemake says."""

    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False  # filter and formatter are Snakemake's own

    def __post_init__(self) -> None:
        logging.raiseExceptions = False  # a full disk is no event
        stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self.terminal = ColorizingTextHandler(nocolor=self.common_settings.nocolor, stream=stream)

    def setFormatter(self, formatter: logging.Formatter) -> None:
        if not (self.common_settings.dryrun or self.common_settings.verbose):
            formatter = Screen(formatter)
            self.addFilter(formatter)
        self.terminal.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        self.terminal.emit(record)
