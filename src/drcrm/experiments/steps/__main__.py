"""Run a step of the pipeline: ``python -P -m drcrm.experiments.steps STEP``, with files and parameters as input.

Standard input has two lines of JSON, because a process accepts at most 128 KiB in one argument.
"""

import json
import os
import sys
from importlib import import_module

from drcrm.errors import InputError, escape_unprintable
from drcrm.experiments.steps import STEPS

USAGE = "usage: python -P -m drcrm.experiments.steps STEP < LINES, where STEP is one of " + ", ".join(STEPS)


def main(arguments: list[str]) -> int:
    """Run a step and return the exit status: 1 for invalid input, 2 for wrong arguments or a missing package."""
    # numpy reads these variables when it is imported. A small fit is several times slower with two BLAS threads.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    if len(arguments) != 1 or arguments[0] not in STEPS:
        print(USAGE, file=sys.stderr)
        return 2
    name, files, parameters = arguments[0], *map(json.loads, sys.stdin)
    try:
        step = getattr(import_module(f"drcrm.experiments.steps.{STEPS[name]}"), name)
        step(files["input"], files["output"], parameters)
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
