"""One advisory lock beside the database, for SQLite versions with the WAL-reset bug.

From 3.7.0 to 3.51.2 two connections that write or checkpoint at the same time can corrupt a WAL
database (https://sqlite.org/wal.html#walresetbug). Where that SQLite is linked, all writes,
checkpoints and closes of all processes take this lock first. It is an flock: Linux and macOS.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from typing import Final

from memsmith.backends.sqlite.opening import unusable
from memsmith.errors import StoreBusyError

FIXED: Final = (3, 51, 3)
BACKPORTS: Final = {(3, 50): 7, (3, 44): 6}
"""Branches that got the fix, and from which patch release on."""


def has_wal_reset_bug(version: tuple[int, int, int]) -> bool:
    """Tell whether an SQLite version can corrupt a WAL database under concurrent checkpoints."""
    if version >= FIXED or version < (3, 7, 0):
        return False
    return version[2] < BACKPORTS.get(version[:2], version[2] + 1)


class FileLock:
    """An flock on ``<database>-lock``; the kernel lets go of it when a process dies.

    The file stays: removing it would let two processes lock two different files.
    """

    def __init__(self, database: str) -> None:
        # Of the file itself, by whatever link it is reached: all who open it must meet at one lock.
        path = os.path.realpath(database) + "-lock"
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise unusable(path, error) from error

    def acquire(self, patience: float) -> None:
        """Take the lock, or raise StoreBusyError after `patience` seconds."""
        if self._try():
            return
        deadline = time.monotonic() + patience
        while not self._try():
            if time.monotonic() >= deadline:
                raise StoreBusyError(
                    f"Another process held the database for more than {patience} s; try again"
                )
            # Jittered polling: a blocking flock could neither time out nor be interrupted.
            time.sleep(random.uniform(0.0002, 0.002))

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)
