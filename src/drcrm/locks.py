"""Who works in a folder: a lock that the system lifts when a process ends, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def hold(path: str, alone: bool = False) -> bool:
    """Share the lock of a file until this process ends; with ``alone`` only if nobody else has it. Whether it could.

    Where there are no locks, as on some network file systems, nobody has one.
    """
    import fcntl  # which Windows does not have

    try:
        stream = os.open(path, os.O_WRONLY | os.O_CREAT)
    except OSError:
        return True
    try:
        if alone:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(stream)
        return False
    except OSError:
        pass
    return True


@contextmanager
def alone(path: str) -> Iterator[bool]:
    """Hold the lock of a file within; what is given is whether nobody else does."""
    import fcntl

    stream = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(stream)
