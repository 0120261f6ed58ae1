"""Commands that move whole stores: export, import, upgrade, secret."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
import typer
from rich.console import RenderableType
from rich.text import Text

from memsmith import connect
from memsmith.errors import ArgumentError, StorageError
from memsmith.store.merging import ImportReport
from memsmith.store.store import MemoryStore
from memsmith.surfaces._errors import Exit
from memsmith.surfaces.cli.render import Out, Task, counted, id_text, table_of
from memsmith.surfaces.cli.shared import (
    DEFAULT_STORE,
    STDIO,
    File,
    Json,
    Store,
    answering,
    read_text,
    require_file,
    require_there,
    run,
    url_of,
    with_store,
)
from memsmith.surfaces.cli.visible import visible


def export(
    to: Annotated[
        str, typer.Argument(metavar="[TO]", help="A new file, or - for standard output.", show_default=False)
    ] = STDIO,
    store: Store = DEFAULT_STORE,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write everything as JSON Lines: memories, tombstones and the ledger, without loss.

    Standard output gets the lines alone, --json or not.
    """
    out = Out(json=as_json)
    with answering(out):
        if to != STDIO and Path(to).exists() and not force:
            raise ArgumentError("to", "a file that is not there yet (--force replaces one)", to)

    async def work(opened: MemoryStore) -> int:
        count = 0
        with out.working("Exporting") as task, sink(to) as write:
            async for line in opened.export():
                if count == 0:
                    task.expect(_lines_told(line))
                write(line)
                task.advance()
                count += 1
        return count

    count = with_store(out, store, work)
    if to != STDIO:
        shown = Text.assemble(("✔ ", "green"), f"{counted(count, 'line', 'lines')} in {visible(to)}")
        out.answer({"file": to, "lines": count}, shown)


def import_file(
    source: Annotated[
        str,
        typer.Argument(metavar="[FROM]", help="What export wrote; - is standard input.", show_default=False),
    ] = STDIO,
    store: Store = DEFAULT_STORE,
    secret_file: Annotated[
        str | None,
        typer.Option("--secret-file", help="What `secret` printed of the store that was exported."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take in what export wrote: verbatim into an empty store, else each memory as a proposal.

    The file is checked as a whole before any of it is written. Values are keyed with the secret of
    the store they come from, so that one is needed.
    """
    out = Out(json=as_json)
    with answering(out):
        secrets = [] if secret_file is None else read_text("secret_file", secret_file).split()

    # Opened first: where there is nothing to import, no store is made.
    with answering(out), _source(source) as file:

        async def work(opened: MemoryStore) -> ImportReport:
            with out.working("Importing") as task:
                return await opened.import_lines(_counted(file, task), secret=secrets)

        report = with_store(out, store, work, create=True)
    out.answer(report, *_report_lines(report))
    if report.refused:
        raise typer.Exit(Exit.NO)


def upgrade(
    file: File = None,
    store: Store = DEFAULT_STORE,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave what can't be carried over to the copy.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Turn a file written by memsmith 0.1.0 into ours; a copy of it is kept."""
    out = Out(json=as_json)
    name = file or store

    async def work() -> connect.UpgradeReport:
        require_there(name)
        return await connect.upgrade(require_file(name), skip_bad=skip_bad, progress=task.reach)

    with out.working("Upgrading") as task:
        report = run(out, work)
    memories = counted(report.memories, "memory", "memories")
    history = counted(report.history, "audit row", "audit rows")
    lines = [
        Text.assemble(("✔ upgraded ", "green"), f"{memories}, {history} as history"),
        Text(f"  memories: {_counts(report.statuses)}", "dim"),
        Text(f"  the old file is {visible(str(report.backup))}", "dim"),
    ]
    lines += [
        Text.assemble(("  left out  ", "yellow"), (visible(ident), "cyan"), f"  {visible(why)}")
        for ident, why in report.skipped.items()
    ]
    out.answer({**asdict(report), "backup": str(report.backup)}, *lines)


def secret(file: File = None, store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Print the secret that keys a store's value digests, in hex. Whoever has it can test guesses."""
    out = Out(json=as_json)
    name = file or store

    async def work() -> dict[str, bytes]:
        require_there(name)
        backend = connect.backend_for(url_of(name))
        await backend.initialize()
        try:
            kept = {ident: found for ident, found in (await backend.secrets()).items() if found}
        finally:
            await backend.close()
        if not kept:
            raise StorageError(f"{name}: no secret is kept here; it was given from outside")
        return kept

    found = run(out, work)
    out.answer(
        {"items": [{"id": ident, "secret": value.hex()} for ident, value in found.items()]},
        *(Text(value.hex()) for value in found.values()),
    )


# -- inside ---------------------------------------------------------------------------------------


@contextmanager
def sink(to: str) -> Generator[Callable[[bytes], object], None, None]:
    """Give what writes bytes; a file appears under its name once it is complete."""
    if to == STDIO:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    try:
        descriptor, part = tempfile.mkstemp(prefix=f".{Path(to).name}-", dir=Path(to).parent)
    except OSError as error:
        raise StorageError(f"{to}: {error.strerror}") from error
    try:
        with open(descriptor, "wb") as file:
            yield file.write
            file.flush()
            os.fsync(descriptor)
        os.replace(part, to)
    except BaseException as error:
        Path(part).unlink()
        if isinstance(error, OSError):
            raise StorageError(f"{to}: {error.strerror}") from error
        raise


@contextmanager
def _source(name: str) -> Generator[BinaryIO, None, None]:
    if name == STDIO:
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115  # only a failure to open is an answer about the argument
    except OSError as error:
        raise ArgumentError("from", "a file that can be read", f"{name}: {error.strerror}") from error
    with file:
        yield file


def _counted(lines: Iterator[bytes], task: Task) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        if number == 0:
            task.expect(_lines_told(line))
        task.advance()
        yield line


def _lines_told(header: bytes) -> int:
    """Return how many lines there are to come, for a bar; what is not a header is no business of a bar."""
    try:
        told = orjson.loads(header)
        return sum(int(told[name]) for name in ("memories", "tombstones", "rows")) + 2
    except (ValueError, LookupError, TypeError):
        return 1


def _report_lines(report: ImportReport) -> list[RenderableType]:
    holds = ", ".join(
        (
            counted(report.memories, "memory", "memories"),
            counted(report.tombstones, "tombstone", "tombstones"),
            counted(report.rows, "ledger row", "ledger rows"),
        )
    )
    if report.restored:
        return [Text.assemble(("✔ restored ", "green"), holds)]
    lines: list[RenderableType] = [
        Text.assemble(("✔ merged ", "green"), f"a file with {holds}"),
        Text(f"  proposed:   {_counts(report.outcomes)}", "dim"),
        Text(f"  left out:   {_counts(report.left_out)}", "dim"),
        Text(f"  tombstones: {report.planted} new", "dim"),
    ]
    if report.refused:
        table = table_of("id", "code", "why it was refused")
        for refusal in report.refused:
            table.add_row(id_text(refusal.memory_id), Text(refusal.code, "red"), visible(refusal.reason))
        lines.append(table)
    return lines


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{visible(name)} {count}" for name, count in counts.items()) or "none"
