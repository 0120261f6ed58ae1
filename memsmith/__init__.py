"""memsmith: governs what AI agents remember.

An agent proposes, validators and policy decide, a person confirms what waits, and every change is a
transition of one state machine with a hash-chained audit row. Start with `MemoryStore`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from memsmith.backends.memory import MemoryBackend
    from memsmith.backends.postgres import PostgresBackend
    from memsmith.backends.sqlite import SQLiteBackend
    from memsmith.errors import (
        ConfidenceMonotonicityError,
        InvalidTransitionError,
        MemsmithError,
        NotFoundError,
        ValidationError,
    )
    from memsmith.ledger.verify import Verdict, Verification
    from memsmith.lifecycle import Action
    from memsmith.metrics import PrometheusMetrics
    from memsmith.policy.keys import KeyedBy
    from memsmith.protocols import (
        StorageBackend,
        TransitionHandler,
        ValidationContext,
        Validator,
        ValidatorFn,
        ValidatorSpec,
    )
    from memsmith.store.asof import AsOf
    from memsmith.store.propose import Reinforcement
    from memsmith.store.store import MemoryStore
    from memsmith.types import (
        Accepted,
        AuditEntry,
        Difference,
        Displaced,
        Interval,
        Memory,
        MemoryStatus,
        Origin,
        Outcome,
        Page,
        PendingConfirmation,
        ProposalInput,
        ProposalResult,
        Rectangle,
        Rejected,
        Span,
        Swept,
        Tombstone,
        ValidationResult,
        Version,
    )
    from memsmith.validators.confidence import ConfidenceThreshold
    from memsmith.validators.hidden_text import HiddenText
    from memsmith.validators.instructions import InstructionLike
    from memsmith.validators.schema import SchemaCheck
    from memsmith.validators.secrets import SecretScan
    from memsmith.validators.size import MaxSize
    from memsmith.validators.trust import SourceTrust
    from memsmith.validators.ttl import TTLPolicy, TTLRule

__version__: Final = "0.2.0"

_HOMES: Final = {
    "memsmith.backends.memory": ["MemoryBackend"],
    "memsmith.backends.postgres": ["PostgresBackend"],
    "memsmith.backends.sqlite": ["SQLiteBackend"],
    "memsmith.errors": [
        "ConfidenceMonotonicityError",
        "InvalidTransitionError",
        "MemsmithError",
        "NotFoundError",
        "ValidationError",
    ],
    "memsmith.ledger.verify": ["Verdict", "Verification"],
    "memsmith.lifecycle": ["Action"],
    "memsmith.metrics": ["PrometheusMetrics"],
    "memsmith.protocols": [
        "StorageBackend",
        "TransitionHandler",
        "ValidationContext",
        "Validator",
        "ValidatorFn",
        "ValidatorSpec",
    ],
    "memsmith.policy.keys": ["KeyedBy"],
    "memsmith.store.asof": ["AsOf"],
    "memsmith.store.propose": ["Reinforcement"],
    "memsmith.store.store": ["MemoryStore"],
    "memsmith.types": [
        "Accepted",
        "AuditEntry",
        "Difference",
        "Displaced",
        "Interval",
        "Memory",
        "MemoryStatus",
        "Origin",
        "Outcome",
        "Page",
        "PendingConfirmation",
        "ProposalInput",
        "ProposalResult",
        "Rectangle",
        "Rejected",
        "Span",
        "Swept",
        "Tombstone",
        "ValidationResult",
        "Version",
    ],
    "memsmith.validators.confidence": ["ConfidenceThreshold"],
    "memsmith.validators.hidden_text": ["HiddenText"],
    "memsmith.validators.instructions": ["InstructionLike"],
    "memsmith.validators.schema": ["SchemaCheck"],
    "memsmith.validators.secrets": ["SecretScan"],
    "memsmith.validators.size": ["MaxSize"],
    "memsmith.validators.trust": ["SourceTrust"],
    "memsmith.validators.ttl": ["TTLPolicy", "TTLRule"],
}
_WHERE: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Accepted",
    "Action",
    "AsOf",
    "AuditEntry",
    "ConfidenceMonotonicityError",
    "ConfidenceThreshold",
    "Difference",
    "Displaced",
    "HiddenText",
    "InstructionLike",
    "Interval",
    "InvalidTransitionError",
    "KeyedBy",
    "MaxSize",
    "Memory",
    "MemoryBackend",
    "MemoryStatus",
    "MemoryStore",
    "MemsmithError",
    "NotFoundError",
    "Origin",
    "Outcome",
    "Page",
    "PendingConfirmation",
    "PostgresBackend",
    "PrometheusMetrics",
    "ProposalInput",
    "ProposalResult",
    "Rectangle",
    "Reinforcement",
    "Rejected",
    "SQLiteBackend",
    "SchemaCheck",
    "SecretScan",
    "SourceTrust",
    "Span",
    "StorageBackend",
    "Swept",
    "TTLPolicy",
    "TTLRule",
    "Tombstone",
    "TransitionHandler",
    "ValidationContext",
    "ValidationError",
    "ValidationResult",
    "Validator",
    "ValidatorFn",
    "ValidatorSpec",
    "Verdict",
    "Verification",
    "Version",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for: `import memsmith` loads no driver."""
    home = _WHERE.get(name)
    if home is None:
        raise AttributeError(f"module 'memsmith' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
