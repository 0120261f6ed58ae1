"""Keeps a server for as long as the test run lives, however the run ends.

    python postgres_keeper.py RUN FOLDER USER PROGRAM...

starts the program, as USER where that is not empty, and ends it once nobody holds the lock on the file
RUN any more, which the kernel lets go of when a process dies. Then FOLDER is removed, if one is named.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PATIENCE = 10.0


def _as(user: str, folder: Path) -> dict[str, Any]:
    if not user:
        return {}
    account = pwd.getpwnam(user)
    environment = {"HOME": str(folder), "PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    return {
        "user": account.pw_uid, "group": account.pw_gid, "extra_groups": [],
        "env": environment, "cwd": folder,
    }  # fmt: skip


def run(program: list[str], user: str, **more: Any) -> subprocess.Popen[bytes]:
    """Start a program as somebody who may reach the folder it is in."""
    return subprocess.Popen(program, stdin=subprocess.DEVNULL, **_as(user, Path("/")), **more)


def main(run_lock: Path, folder: str, user: str, program: list[str]) -> int:
    """Return what the program returned."""
    # Ctrl-C ends the run; the server goes after it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = run(program, user)

    def outlive() -> None:
        with run_lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        server.send_signal(signal.SIGQUIT)
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()

    watching = threading.Thread(target=outlive, daemon=True)
    watching.start()
    code = server.wait()
    if folder:
        watching.join()
        shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
