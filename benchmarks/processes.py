"""Measure the time and memory of a command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# A fresh interpreter starts the command, so that the numbers are those of the command only.
MEASURE = """
import json, os, sys, time
start = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
done, peak = 0, 0
while not done:
    done, status, used = os.wait4(pid, os.WNOHANG)
    try:
        with open(f"/proc/{pid}/status") as lines:
            peak = max(peak, *(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))
    except (OSError, TypeError):
        pass
    time.sleep(0.01)
seconds = [time.perf_counter() - start, used.ru_utime, used.ru_stime]
print(json.dumps([os.waitstatus_to_exitcode(status), *seconds, peak / 1024, used.ru_maxrss / 1024]))
"""


class CommandError(RuntimeError):
    """A command failed; the message has its exit status and the end of its standard error."""


def measure(*command: str | Path, **options) -> dict[str, float]:
    """Run a command and return its wall, user and system seconds, and its peak memory in MB.

    ``MB`` is anonymous memory, which excludes memory-mapped files; ``resident MB`` includes them. The options are those
    of ``subprocess.run``. CommandError if the command fails.
    """
    launcher = [sys.executable, "-I", "-S", "-c", MEASURE, *map(str, command)]
    done = subprocess.run(launcher, capture_output=True, text=True, check=True, **options)
    status, *values = json.loads(done.stdout.splitlines()[-1])
    if status:
        raise CommandError(f"exit status {status}: {done.stderr.strip()[-200:]}")
    return dict(zip(("wall", "user", "system", "MB", "resident MB"), values, strict=True))
