"""Who works in a folder: a lock that the system lifts when a process ends, however it ends."""

import os


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
