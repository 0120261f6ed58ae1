"""Commands that look and change nothing: list, show, pending, audit, verify, tombstones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from memsmith.errors import ArgumentError, NotFoundError
from memsmith.ledger.verify import Verification
from memsmith.lifecycle import Action
from memsmith.protocols import ORDERS
from memsmith.store.replaying import ReplayReport
from memsmith.store.store import MemoryStore
from memsmith.surfaces._errors import Exit
from memsmith.surfaces.cli.render import (
    Out,
    audit_table,
    differences_table,
    memories_table,
    memory_card,
    pending_table,
    tombstones_table,
    verification_data,
    verification_text,
)
from memsmith.surfaces.cli.shared import DEFAULT_STORE, File, Json, Limit, Store, answering, with_store
from memsmith.types import FACT, AuditEntry, Memory, MemoryStatus, Page, Tombstone

Cursor = Annotated[
    str | None, typer.Option("--cursor", help="Where an earlier page ended.", show_default=False)
]
Status = StrEnum("Status", {status.name: status.value for status in MemoryStatus})  # type: ignore[misc]  # members come from the one table
