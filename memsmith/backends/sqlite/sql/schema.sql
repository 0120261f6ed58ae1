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

CREATE TRIGGER heads_stay BEFORE DELETE ON heads
BEGIN
    SELECT RAISE(ABORT, 'heads only move on');
END;

CREATE TRIGGER heads_move_on BEFORE UPDATE ON heads
WHEN NEW.tenant <> OLD.tenant OR NEW.count < OLD.count OR NEW.time < OLD.time
BEGIN
    SELECT RAISE(ABORT, 'heads only move on');
END;

-- "INSERT OR REPLACE" deletes without firing the first of these.
CREATE TRIGGER heads_replace_nothing BEFORE INSERT ON heads
WHEN EXISTS (
    SELECT 1 FROM heads AS h
    WHERE h.tenant = NEW.tenant AND (h.count > NEW.count OR h.time > NEW.time)
) OR EXISTS (SELECT 1 FROM heads AS h WHERE h.rowid = NEW.rowid AND h.tenant <> NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'heads only move on');
END;

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
    retracted_during TEXT NOT NULL, -- JSON list of [start, end or null]
    asserted_order INTEGER NOT NULL, -- the ledger row that asserted it last; 0 while none did
    displaces TEXT NOT NULL, -- JSON list of [id or null, start, end or null]
    many INTEGER NOT NULL,
    system_from TEXT NOT NULL,
    was_unkeyed INTEGER NOT NULL DEFAULT 0, -- whether a version that was replaced had no key
    -- How many digits its age in seconds had when it last changed.
    changed_class INTEGER GENERATED ALWAYS AS (
        length(CAST((julianday(system_from) - julianday(created_at)) * 86400 AS INTEGER))
    ) VIRTUAL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX memories_created ON memories (tenant, created_at, id, system_from);
CREATE INDEX memories_unkeyed ON memories (tenant, created_at, id) WHERE key IS NULL;
CREATE INDEX memories_changed ON memories (tenant, changed_class, created_at, system_from, id)
    WHERE system_from > created_at;
CREATE INDEX memories_changed_unkeyed ON memories (tenant, changed_class, created_at, system_from, id)
    WHERE system_from > created_at AND (key IS NULL OR was_unkeyed);
CREATE INDEX memories_session ON memories (tenant, session_id, created_at, id);
CREATE INDEX memories_value ON memories (tenant, value_digest)
    WHERE status IN ('active', 'pending_confirmation');
CREATE INDEX memories_slot ON memories (tenant, key, scope, kind, status, valid_from) WHERE key IS NOT NULL;
CREATE INDEX memories_lasting ON memories (tenant, key, scope, kind, valid_from)
    WHERE valid_to IS NULL AND retracted_during = '[]' AND asserted_order > 0
        AND status IN ('active', 'superseded') AND NOT many AND key IS NOT NULL;
CREATE INDEX memories_holding ON memories (tenant, id)
    WHERE key IS NOT NULL AND status = 'active';
CREATE INDEX memories_due ON memories (tenant, expires_at, id)
    WHERE expires_at IS NOT NULL AND status IN ('active', 'pending_confirmation');
CREATE INDEX memories_active ON memories (tenant, created_at, id)
    WHERE status = 'active';
CREATE INDEX memories_pending ON memories (tenant, created_at, id)
    WHERE status = 'pending_confirmation';

CREATE TRIGGER memories_keep_their_lane BEFORE UPDATE OF many ON memories
WHEN NEW.many <> OLD.many AND NEW.key = OLD.key
BEGIN
    SELECT RAISE(ABORT, 'memories keep the cardinality they were told under');
END;

-- What a version was replaced by is later than it: one row for each unit that changed a memory.
CREATE TABLE memory_history (
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
    retracted_during TEXT NOT NULL, -- JSON list of [start, end or null]
    asserted_order INTEGER NOT NULL, -- the ledger row that asserted it last; 0 while none did
    displaces TEXT NOT NULL, -- JSON list of [id or null, start, end or null]
    many INTEGER NOT NULL,
    system_from TEXT NOT NULL,
    system_to TEXT NOT NULL CHECK (system_to > system_from),
    PRIMARY KEY (tenant, id, system_from)
);

CREATE INDEX history_key ON memory_history (tenant, key, scope, kind, id) WHERE key IS NOT NULL;

CREATE TRIGGER memory_history_keeps_rows BEFORE DELETE ON memory_history
BEGIN
    SELECT RAISE(ABORT, 'memory_history is append-only');
END;

CREATE TRIGGER memory_history_keeps_values BEFORE UPDATE ON memory_history
BEGIN
    SELECT RAISE(ABORT, 'memory_history is append-only');
END;

CREATE TRIGGER memory_history_replaces_nothing BEFORE INSERT ON memory_history
WHEN EXISTS (
    SELECT 1 FROM memory_history AS h
    WHERE h.tenant = NEW.tenant AND h.id = NEW.id AND h.system_from = NEW.system_from
) OR EXISTS (SELECT 1 FROM memory_history AS h WHERE h.rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'memory_history is append-only');
END;

CREATE TRIGGER memory_history_goes_on BEFORE INSERT ON memory_history
WHEN NEW.system_to < (SELECT h.time FROM heads AS h WHERE h.tenant = NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'memory_history is append-only');
END;

CREATE TRIGGER memory_history_marks_what_had_no_key AFTER INSERT ON memory_history WHEN NEW.key IS NULL
BEGIN
    UPDATE memories SET was_unkeyed = 1 WHERE tenant = NEW.tenant AND id = NEW.id AND NOT was_unkeyed;
END;

-- What is effective of each keyed memory, as believed when: rectangles on the two axes of time.
CREATE TABLE memory_segments (
    tenant TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    lane TEXT NOT NULL CHECK (lane IN ('', memory_id)), -- the id where the key holds many values
    valid_from TEXT NOT NULL,
    valid_to TEXT CHECK (valid_to > valid_from),
    asserted_from TEXT NOT NULL,
    asserted_order INTEGER NOT NULL,
    system_from TEXT NOT NULL,
    system_to TEXT CHECK (system_to > system_from), -- NULL while it is believed
    created_at TEXT NOT NULL, -- of the memory: what lists are in order of
    -- How many digits its length in seconds has, in valid time while it is believed, then in system
    -- time; NULL where it is endless. What holds at a moment began no longer ago than its class lasts.
    -- Not computed by the table, because an index over what is would be looked through with its rows.
    class INTEGER,
    PRIMARY KEY (tenant, memory_id, valid_from, system_from)
) WITHOUT ROWID;

CREATE INDEX segments_current ON memory_segments (tenant, key, scope, kind, lane, valid_from)
    WHERE system_to IS NULL;
CREATE INDEX segments_key_valid ON memory_segments (
    tenant, key, scope, kind, class, valid_from, valid_to, system_from, system_to, created_at, memory_id
) WHERE system_to IS NULL;
CREATE INDEX segments_key_believed ON memory_segments (
    tenant, key, scope, kind, class, system_from, system_to, valid_from, valid_to, created_at, memory_id
) WHERE system_to IS NOT NULL;
CREATE INDEX segments_valid ON memory_segments (
    tenant, class, valid_from, valid_to, system_from, system_to, created_at, memory_id
) WHERE system_to IS NULL;
CREATE INDEX segments_believed ON memory_segments (
    tenant, class, system_from, system_to, valid_from, valid_to, created_at, memory_id
) WHERE system_to IS NOT NULL;

-- Those believed now are disjoint, so the one that begins last before the new one ends, ends last.
CREATE TRIGGER memory_segments_do_not_overlap BEFORE INSERT ON memory_segments WHEN NEW.system_to IS NULL
BEGIN
    SELECT RAISE(ABORT, 'memory_segments of one key do not overlap')
    WHERE (
        SELECT coalesce(s.valid_to, '~') FROM memory_segments AS s
        WHERE s.tenant = NEW.tenant AND s.key = NEW.key AND s.scope = NEW.scope AND s.kind = NEW.kind
            AND s.lane = NEW.lane AND s.system_to IS NULL AND s.valid_from < coalesce(NEW.valid_to, '~')
        ORDER BY s.valid_from DESC LIMIT 1
    ) > NEW.valid_from;
END;

CREATE TRIGGER memory_segments_replace_nothing BEFORE INSERT ON memory_segments
WHEN EXISTS (
    SELECT 1 FROM memory_segments AS s
    WHERE s.tenant = NEW.tenant AND s.memory_id = NEW.memory_id AND s.valid_from = NEW.valid_from
        AND s.system_from = NEW.system_from
)
BEGIN
    SELECT RAISE(ABORT, 'memory_segments are append-only');
END;

CREATE TRIGGER memory_segments_go_on BEFORE INSERT ON memory_segments
WHEN NEW.system_from < (SELECT h.time FROM heads AS h WHERE h.tenant = NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'memory_segments are append-only');
END;

-- A lane of its own is for a memory that was told under a key of many values.
CREATE TRIGGER memory_segments_keep_to_their_lane BEFORE INSERT ON memory_segments
WHEN NEW.system_to IS NULL AND NEW.lane <> '' AND NOT EXISTS (
    SELECT 1 FROM memories AS m
    WHERE m.tenant = NEW.tenant AND m.id = NEW.memory_id AND m.many
        AND m.key = NEW.key AND m.scope = NEW.scope AND m.kind = NEW.kind
)
BEGIN
    SELECT RAISE(ABORT, 'memory_segments of one key do not overlap');
END;

CREATE TRIGGER memory_segments_only_close BEFORE UPDATE ON memory_segments
WHEN OLD.system_to IS NOT NULL OR NEW.system_to IS NULL
    OR (OLD.tenant, OLD.memory_id, OLD.kind, OLD.scope, OLD.key, OLD.lane, OLD.valid_from, OLD.valid_to,
        OLD.asserted_from, OLD.asserted_order, OLD.system_from, OLD.created_at)
    IS NOT (NEW.tenant, NEW.memory_id, NEW.kind, NEW.scope, NEW.key, NEW.lane, NEW.valid_from, NEW.valid_to,
        NEW.asserted_from, NEW.asserted_order, NEW.system_from, NEW.created_at)
BEGIN
    SELECT RAISE(ABORT, 'memory_segments are closed, never changed');
END;

CREATE TRIGGER memory_segments_close_now BEFORE UPDATE ON memory_segments
WHEN OLD.system_to IS NULL AND NEW.system_to < (SELECT h.time FROM heads AS h WHERE h.tenant = NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'memory_segments are closed now, not in the past');
END;

-- Within one transaction a later verb may take back what an earlier one did: nobody believed it yet.
CREATE TRIGGER memory_segments_keep_rows BEFORE DELETE ON memory_segments
WHEN OLD.system_to IS NOT NULL
    OR OLD.system_from < (SELECT h.time FROM heads AS h WHERE h.tenant = OLD.tenant)
BEGIN
    SELECT RAISE(ABORT, 'memory_segments are append-only');
END;

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

-- "INSERT OR REPLACE" deletes without firing the trigger above.
CREATE TRIGGER audit_log_replaces_nothing BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log AS a WHERE a.tenant = NEW.tenant AND a.seq = NEW.seq)
    OR EXISTS (SELECT 1 FROM audit_log AS a WHERE a.rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;

CREATE TRIGGER audit_log_goes_on BEFORE INSERT ON audit_log
WHEN NEW.seq <= (SELECT h.count FROM heads AS h WHERE h.tenant = NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
