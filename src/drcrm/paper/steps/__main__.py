"""Run a step of the pipeline: ``python -P -m drcrm.paper.steps MODULE.STEP --NAME=PATH --NAME PATH PATH``.

``--settings=JSON`` has the settings of the step. A file without a path, ``--NAME=``, is left out.
"""

import json
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from drcrm.errors import InputError, escape_unprintable

USAGE = "usage: python -P -m drcrm.paper.steps MODULE.STEP --NAME=PATH --NAME PATH PATH --settings=JSON"


def parse(arguments: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the files by name, a path after ``--NAME=`` and a list of paths after ``--NAME``, and the settings."""
    files: dict[str, Any] = {}
    paths: list[str] = []
    for argument in arguments:
        name, is_single, path = argument.removeprefix("--").partition("=")
        if not argument.startswith("--"):
            paths.append(argument)
        elif is_single:
            files[name] = path
        else:
            files[name] = paths = []
    settings = json.loads(files.pop("settings", "{}"))
    return {name: path for name, path in files.items() if path != ""}, settings


def main(arguments: list[str]) -> int:
    """Run a step and return the exit status: 1 for invalid input, 2 for wrong arguments or a missing package."""
    # numpy reads these variables when it is imported. A small fit is several times slower with two BLAS threads.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    if not arguments or "." not in arguments[0]:
        print(USAGE, file=sys.stderr)
        return 2
    module, _, name = arguments[0].partition(".")
    files, settings = parse(arguments[1:])
    try:
        getattr(import_module(f"drcrm.paper.steps.{module}"), name)(files, settings)
    except ModuleNotFoundError as error:
        print(f"drcrm {name}: {error.name} is not installed. Run: pip install 'drcrm[pipeline]'", file=sys.stderr)
        return 2
    except (InputError, OSError, MemoryError) as error:
        for message in error.args if isinstance(error, InputError) else [error]:
            print(f"drcrm {name}: {escape_unprintable(message) or 'out of memory'}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(f"drcrm {sys.argv[1]}: interrupted")
