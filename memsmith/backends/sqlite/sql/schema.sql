-- The schema as it is now: the sum of the migrations, held to them by a test.
-- Times are UTC text of fixed width, so that text order is time order.

CREATE TABLE secrets (
    id TEXT PRIMARY KEY,
    secret BLOB, -- NULL where it is kept outside the file
    added_at INTEGER NOT NULL -- order of arrival
);

CREATE TABLE heads (
    tenant TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    hash TEXT NOT NULL,
    time TEXT NOT NULL
);

CREATE TABLE memories (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT,
    content TEXT, -- canonical JSON; NULL where a refusal kept none
    content_hash TEXT NOT NULL,
    value_digest TEXT NOT NULL,
    session_id TEXT NOT NULL,
    thread_id TEXT,
    source TEXT,
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    origin TEXT NOT NULL CHECK (origin IN ('untrusted', 'tool', 'agent', 'owner')),
    sensitivity TEXT NOT NULL,
    status TEXT NOT NULL CHECK (
        status IN (
            'pending_confirmation', 'active', 'superseded', 'rejected',
            'retracted', 'expired', 'quarantined', 'erased'
        )
    ),
    held_status TEXT,
    code TEXT,
    depends_on TEXT NOT NULL,
    metadata TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    valid_from TEXT,
    valid_to TEXT CHECK (valid_to > valid_from OR status = 'rejected'),
    expires_at TEXT,
    retracted_at TEXT,
    retraction_reason TEXT,
    version INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX memories_created ON memories (tenant, created_at, id);
CREATE INDEX memories_session ON memories (tenant, session_id, created_at, id);
CREATE INDEX memories_value ON memories (tenant, value_digest)
    WHERE status IN ('active', 'pending_confirmation');
CREATE INDEX memories_slot ON memories (tenant, key, scope, kind)
    WHERE key IS NOT NULL AND status IN ('active', 'pending_confirmation');
CREATE INDEX memories_due ON memories (tenant, expires_at, id)
    WHERE expires_at IS NOT NULL AND status IN ('active', 'pending_confirmation');
CREATE INDEX memories_pending ON memories (tenant, created_at, id)
    WHERE status = 'pending_confirmation';

CREATE TABLE dependencies (
    tenant TEXT NOT NULL,
    parent TEXT NOT NULL,
    child TEXT NOT NULL,
    PRIMARY KEY (tenant, parent, child)
) WITHOUT ROWID;

CREATE TABLE tombstones (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT,
    digest TEXT NOT NULL,
    secret_id TEXT NOT NULL,
    reason TEXT,
    actor TEXT NOT NULL,
    created_at TEXT NOT NULL,
    refused INTEGER NOT NULL,
    lifted_at TEXT,
    lift_reason TEXT,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX tombstones_digest ON tombstones (tenant, digest);

CREATE TABLE outcomes (
    tenant TEXT NOT NULL,
    actor TEXT NOT NULL,
    verb TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    codes TEXT NOT NULL, -- JSON list
    memory_ids TEXT NOT NULL, -- JSON list
    digest TEXT NOT NULL, -- keyed, over the arguments
    at TEXT NOT NULL,
    PRIMARY KEY (tenant, actor, verb, idempotency_key)
) WITHOUT ROWID;

CREATE TABLE audit_log (
    tenant TEXT NOT NULL,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    action TEXT NOT NULL,
    from_status TEXT NOT NULL,
    to_status TEXT NOT NULL,
    time TEXT NOT NULL,
    actor TEXT NOT NULL,
    payload TEXT, -- canonical JSON; NULL once erased, together with its salt
    salt TEXT,
    payload_digest TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (tenant, seq)
);

CREATE INDEX audit_memory ON audit_log (tenant, memory_id, seq);

CREATE TRIGGER audit_log_keeps_rows BEFORE DELETE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;

CREATE TRIGGER audit_log_keeps_values BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
