"""Commands that move whole stores: export, import, upgrade, secret."""

from __future__ import annotations

from rich.text import Text

from memsmith.connect import backend_for
from memsmith.errors import StorageError
from memsmith.surfaces.cli.render import Out
from memsmith.surfaces.cli.shared import DEFAULT_STORE, File, Json, Store, require_there, run, url_of


def export() -> None: ...
def import_file() -> None: ...
def upgrade() -> None: ...


def secret(file: File = None, store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Print the secret that keys a store's value digests, in hex. Whoever has it can test guesses."""
    out = Out(json=as_json)

    async def work() -> dict[str, bytes]:
        require_there(file or store)
        backend = backend_for(url_of(file or store))
        await backend.initialize()
        try:
            kept = {name: found for name, found in (await backend.secrets()).items() if found}
        finally:
            await backend.close()
        if not kept:
            raise StorageError("The store keeps no secret: it was given from outside, or none was needed yet")
        return kept

    found = run(out, work)
    out.answer(
        {"items": [{"id": name, "secret": value.hex()} for name, value in found.items()]},
        *(Text(value.hex()) for value in found.values()),
    )
