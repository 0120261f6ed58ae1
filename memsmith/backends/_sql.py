"""Named SQL from files: ``-- name: x`` starts a statement, the comments under it say why."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_queries(package: str, file: str = "queries.sql") -> dict[str, str]:
    """Return the statements of a file in a package's ``sql`` folder by name, without their comments."""
    text = files(package).joinpath("sql", file).read_text("utf-8")
    parts = _NAME.split(text)[1:]
    return {
        name: "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


@dataclass(frozen=True)
class Migration:
    """One numbered step of the schema; `checksum` is the SHA-256 of its text."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(package: str) -> list[Migration]:
    """Return the steps in ``sql/migrations/NNNN_what.sql``, in order."""
    folder = files(package).joinpath("sql/migrations")
    steps = [
        Migration(int(entry.name[:4]), entry.name.removesuffix(".sql"), entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if re.fullmatch(r"\d{4}_\w+\.sql", entry.name)
    ]
    return sorted(steps, key=lambda step: step.version)
