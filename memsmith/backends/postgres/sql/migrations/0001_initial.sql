-- The first schema. Text is compared byte by byte, as Python and SQLite do; times are instants. What
-- is hashed is kept as the text that was hashed, ledger times among it.

CREATE SCHEMA IF NOT EXISTS memsmith;
CREATE EXTENSION IF NOT EXISTS btree_gist WITH SCHEMA memsmith;

-- What stands for a name in an index, which holds no more than 2,704 bytes of an entry; names may be
-- longer. The cast reads a backslash as an escape, unless there are two. Unlike convert_to() it is
-- immutable, so that this can be written out where it is called.
CREATE FUNCTION memsmith.digest(name text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN substring(sha256(replace(name, '\', '\\')::bytea) FOR 16);

CREATE FUNCTION memsmith.chain(tenant text, key text, scope text, kind text, lane text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(
    memsmith.digest(tenant) || memsmith.digest(key) || memsmith.digest(scope)
    || memsmith.digest(kind) || memsmith.digest(lane)
);

-- How many digits the seconds between two moments have; 0 where there is no end.
CREATE FUNCTION memsmith.seconds_digits(since timestamptz, until timestamptz) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(length(trunc(extract(epoch FROM until - since))::text), 0);

-- The text of a scalar at a path through the objects of a JSON document, where it is of one type.
CREATE FUNCTION memsmith.scalar_at(document text, path text[], kind text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    here json := document::json;
    step text;
BEGIN
    FOREACH step IN ARRAY path LOOP
        -- Asked for by a name, lists and scalars have nothing.
        here := CASE json_typeof(here) WHEN 'object' THEN here -> step END;
    END LOOP;
    RETURN CASE json_typeof(here) WHEN kind THEN here::text END;
END
$$;

CREATE FUNCTION memsmith.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE restrict_violation USING MESSAGE = coalesce(TG_ARGV[0], TG_TABLE_NAME || ' is append-only');
END
$$;

CREATE TABLE memsmith.secrets (
    id text COLLATE "C" PRIMARY KEY,
    secret bytea, -- NULL where it is kept outside the database
    added_at bigint NOT NULL -- order of arrival
);

CREATE TABLE memsmith.heads (
    tenant text COLLATE "C" PRIMARY KEY,
    count bigint NOT NULL,
    hash text NOT NULL,
    time timestamptz NOT NULL
);

CREATE FUNCTION memsmith.heads_move_on() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.tenant <> OLD.tenant OR NEW.count < OLD.count OR NEW.time < OLD.time THEN
        RAISE restrict_violation USING MESSAGE = 'heads only move on';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER heads_move_on BEFORE UPDATE ON memsmith.heads
FOR EACH ROW EXECUTE FUNCTION memsmith.heads_move_on();

CREATE TRIGGER heads_stay BEFORE DELETE OR TRUNCATE ON memsmith.heads
EXECUTE FUNCTION memsmith.refuse('heads only move on');

CREATE TABLE memsmith.memories (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    content text COLLATE "C", -- canonical JSON; NULL where a refusal kept none
    content_hash text COLLATE "C" NOT NULL,
    value_digest text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C",
    source text COLLATE "C",
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    origin text COLLATE "C" NOT NULL CHECK (origin IN ('untrusted', 'tool', 'agent', 'owner')),
    sensitivity text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (
        status IN (
            'pending_confirmation', 'active', 'superseded', 'rejected',
            'retracted', 'expired', 'quarantined', 'erased'
        )
    ),
    held_status text COLLATE "C",
    code text COLLATE "C",
    depends_on text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    valid_from timestamptz,
    valid_to timestamptz CHECK (valid_to > valid_from OR status = 'rejected'),
    expires_at timestamptz,
    retracted_at timestamptz,
    retraction_reason text COLLATE "C",
    version bigint NOT NULL,
    seq bigint NOT NULL,
    retracted_during text COLLATE "C" NOT NULL, -- JSON list of [start, end or null]
    asserted_order bigint NOT NULL, -- the ledger row that asserted it last; 0 while none did
    displaces text COLLATE "C" NOT NULL, -- JSON list of [id or null, start, end or null]
    many integer NOT NULL,
    system_from timestamptz NOT NULL,
    was_unkeyed boolean NOT NULL DEFAULT false, -- whether a version that was replaced had no key
    -- How many digits its age in seconds had when it last changed.
    changed_class integer NOT NULL
        GENERATED ALWAYS AS (memsmith.seconds_digits(created_at, system_from)) STORED,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX memories_created ON memsmith.memories (tenant, created_at, id, system_from);
CREATE INDEX memories_unkeyed ON memsmith.memories (tenant, created_at, id) WHERE key IS NULL;
CREATE INDEX memories_changed ON memsmith.memories (tenant, changed_class, created_at, system_from, id)
    WHERE system_from > created_at;
CREATE INDEX memories_changed_unkeyed ON memsmith.memories (tenant, changed_class, created_at, system_from, id)
    WHERE system_from > created_at AND (key IS NULL OR was_unkeyed);
CREATE INDEX memories_session ON memsmith.memories (tenant, memsmith.digest(session_id), created_at, id);
CREATE INDEX memories_value ON memsmith.memories (tenant, value_digest)
    WHERE status IN ('active', 'pending_confirmation');
CREATE INDEX memories_slot ON memsmith.memories (
    tenant, memsmith.digest(key), memsmith.digest(scope), kind, status, valid_from
) WHERE key IS NOT NULL;
CREATE INDEX memories_lasting ON memsmith.memories (
    tenant, memsmith.digest(key), memsmith.digest(scope), kind, valid_from
) WHERE valid_to IS NULL AND retracted_during = '[]' AND asserted_order > 0
    AND status IN ('active', 'superseded') AND many = 0 AND key IS NOT NULL;
CREATE INDEX memories_holding ON memsmith.memories (tenant, id)
    WHERE key IS NOT NULL AND status = 'active';
CREATE INDEX memories_due ON memsmith.memories (tenant, expires_at, id)
    WHERE expires_at IS NOT NULL AND status IN ('active', 'pending_confirmation');
CREATE INDEX memories_active ON memsmith.memories (tenant, created_at, id)
    WHERE status = 'active';
CREATE INDEX memories_pending ON memsmith.memories (tenant, created_at, id)
    WHERE status = 'pending_confirmation';

CREATE FUNCTION memsmith.memories_keep_their_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE restrict_violation USING MESSAGE = 'memories keep the cardinality they were told under';
END
$$;

CREATE TRIGGER memories_keep_their_lane BEFORE UPDATE OF many ON memsmith.memories
FOR EACH ROW WHEN (NEW.many <> OLD.many AND NEW.key = OLD.key)
EXECUTE FUNCTION memsmith.memories_keep_their_lane();

-- What a version was replaced by is later than it: one row for each unit that changed a memory.
CREATE TABLE memsmith.memory_history (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    content text COLLATE "C", -- canonical JSON; NULL where a refusal kept none
    content_hash text COLLATE "C" NOT NULL,
    value_digest text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C",
    source text COLLATE "C",
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    origin text COLLATE "C" NOT NULL CHECK (origin IN ('untrusted', 'tool', 'agent', 'owner')),
    sensitivity text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (
        status IN (
            'pending_confirmation', 'active', 'superseded', 'rejected',
            'retracted', 'expired', 'quarantined', 'erased'
        )
    ),
    held_status text COLLATE "C",
    code text COLLATE "C",
    depends_on text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    valid_from timestamptz,
    valid_to timestamptz CHECK (valid_to > valid_from OR status = 'rejected'),
    expires_at timestamptz,
    retracted_at timestamptz,
    retraction_reason text COLLATE "C",
    version bigint NOT NULL,
    seq bigint NOT NULL,
    retracted_during text COLLATE "C" NOT NULL, -- JSON list of [start, end or null]
    asserted_order bigint NOT NULL, -- the ledger row that asserted it last; 0 while none did
    displaces text COLLATE "C" NOT NULL, -- JSON list of [id or null, start, end or null]
    many integer NOT NULL,
    system_from timestamptz NOT NULL,
    system_to timestamptz NOT NULL CHECK (system_to > system_from),
    PRIMARY KEY (tenant, id, system_from)
);

CREATE INDEX history_key ON memsmith.memory_history (
    tenant, memsmith.digest(key), memsmith.digest(scope), kind, id
) WHERE key IS NOT NULL;

CREATE TRIGGER memory_history_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON memsmith.memory_history
EXECUTE FUNCTION memsmith.refuse();

CREATE FUNCTION memsmith.memory_history_goes_on() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM added JOIN memsmith.heads AS h USING (tenant) WHERE added.system_to < h.time
    ) THEN
        RAISE restrict_violation USING MESSAGE = 'memory_history is append-only';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER memory_history_goes_on AFTER INSERT ON memsmith.memory_history
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memsmith.memory_history_goes_on();

-- What is effective of each keyed memory, as believed when: rectangles on the two axes of time.
CREATE TABLE memsmith.memory_segments (
    tenant text COLLATE "C" NOT NULL,
    memory_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL CHECK (lane IN ('', memory_id)), -- the id where the key holds many values
    valid_from timestamptz NOT NULL,
    valid_to timestamptz CHECK (valid_to > valid_from),
    asserted_from timestamptz NOT NULL,
    asserted_order bigint NOT NULL,
    system_from timestamptz NOT NULL,
    system_to timestamptz CHECK (system_to > system_from), -- NULL while it is believed
    created_at timestamptz NOT NULL, -- of the memory: what lists are in order of
    -- How many digits its length in seconds has, in valid time while it is believed, then in system
    -- time; 0 where it is endless. What holds at a moment began no longer ago than its class lasts.
    class integer NOT NULL,
    PRIMARY KEY (tenant, memory_id, valid_from, system_from),
    CONSTRAINT memory_segments_do_not_overlap EXCLUDE USING gist (
        memsmith.chain(tenant, key, scope, kind, lane) WITH =,
        tstzrange(valid_from, valid_to) WITH &&
    ) WHERE (system_to IS NULL)
);

CREATE INDEX segments_current ON memsmith.memory_segments (
    tenant, memsmith.digest(key), memsmith.digest(scope), kind, lane, valid_from
) WHERE system_to IS NULL;
CREATE INDEX segments_key_valid ON memsmith.memory_segments (
    tenant, memsmith.digest(key), memsmith.digest(scope), kind, class, valid_from
) WHERE system_to IS NULL;
CREATE INDEX segments_key_believed ON memsmith.memory_segments (
    tenant, memsmith.digest(key), memsmith.digest(scope), kind, class, system_from
) WHERE system_to IS NOT NULL;
CREATE INDEX segments_valid ON memsmith.memory_segments (tenant, class, valid_from)
    WHERE system_to IS NULL;
CREATE INDEX segments_believed ON memsmith.memory_segments (tenant, class, system_from)
    WHERE system_to IS NOT NULL;

CREATE FUNCTION memsmith.only_close() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.system_to IS NOT NULL OR NEW.system_to IS NULL
        OR (OLD.tenant, OLD.memory_id, OLD.kind, OLD.scope, OLD.key, OLD.lane, OLD.valid_from, OLD.valid_to,
            OLD.asserted_from, OLD.asserted_order, OLD.system_from, OLD.created_at)
        IS DISTINCT FROM
            (NEW.tenant, NEW.memory_id, NEW.kind, NEW.scope, NEW.key, NEW.lane, NEW.valid_from, NEW.valid_to,
            NEW.asserted_from, NEW.asserted_order, NEW.system_from, NEW.created_at)
    THEN
        RAISE restrict_violation USING MESSAGE = 'memory_segments are closed, never changed';
    END IF;
    IF NEW.system_to < (SELECT h.time FROM memsmith.heads AS h WHERE h.tenant = NEW.tenant) THEN
        RAISE restrict_violation USING MESSAGE = 'memory_segments are closed now, not in the past';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER memory_segments_only_close BEFORE UPDATE ON memsmith.memory_segments
FOR EACH ROW EXECUTE FUNCTION memsmith.only_close();

-- Within one transaction a later verb may take back what an earlier one did: nobody believed it yet.
CREATE FUNCTION memsmith.keep_what_was_believed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.system_to IS NOT NULL
        OR OLD.system_from < (SELECT h.time FROM memsmith.heads AS h WHERE h.tenant = OLD.tenant)
    THEN
        RAISE restrict_violation USING MESSAGE = 'memory_segments are append-only';
    END IF;
    RETURN OLD;
END
$$;

CREATE TRIGGER memory_segments_keep_rows BEFORE DELETE ON memsmith.memory_segments
FOR EACH ROW EXECUTE FUNCTION memsmith.keep_what_was_believed();

CREATE TRIGGER memory_segments_are_not_truncated BEFORE TRUNCATE ON memsmith.memory_segments
EXECUTE FUNCTION memsmith.refuse();

-- A lane of its own is for a memory that was told under a key of many values. What comes closed may be of
-- a key that the memory left in the same group of units.
CREATE FUNCTION memsmith.memory_segments_go_on() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM added JOIN memsmith.heads AS h USING (tenant) WHERE added.system_from < h.time
    ) THEN
        RAISE restrict_violation USING MESSAGE = 'memory_segments are append-only';
    END IF;
    IF EXISTS (
        SELECT 1 FROM added
        WHERE added.lane <> '' AND added.system_to IS NULL AND NOT EXISTS (
            SELECT 1 FROM memsmith.memories AS m
            WHERE m.tenant = added.tenant AND m.id = added.memory_id AND m.many <> 0
                AND m.key = added.key AND m.scope = added.scope AND m.kind = added.kind
        )
    ) THEN
        RAISE restrict_violation USING MESSAGE = 'memory_segments of one key do not overlap';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER memory_segments_go_on AFTER INSERT ON memsmith.memory_segments
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memsmith.memory_segments_go_on();

CREATE TABLE memsmith.dependencies (
    tenant text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL,
    child text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX dependencies_parent ON memsmith.dependencies (
    tenant, memsmith.digest(parent), memsmith.digest(child)
);

CREATE TABLE memsmith.tombstones (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    memory_id text NOT NULL,
    kind text NOT NULL,
    scope text NOT NULL,
    key text,
    digest text COLLATE "C" NOT NULL,
    secret_id text NOT NULL,
    reason text,
    actor text NOT NULL,
    created_at timestamptz NOT NULL,
    refused bigint NOT NULL,
    lifted_at timestamptz,
    lift_reason text,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX tombstones_digest ON memsmith.tombstones (tenant, digest);

CREATE TABLE memsmith.outcomes (
    tenant text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    verb text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    codes text NOT NULL, -- JSON list
    memory_ids text NOT NULL, -- JSON list
    digest text NOT NULL, -- keyed, over the arguments
    at timestamptz NOT NULL
);

CREATE UNIQUE INDEX outcomes_call ON memsmith.outcomes (
    tenant, memsmith.digest(actor), verb, memsmith.digest(idempotency_key)
);

-- Two rows of one number are impossible, so a chain has no forks.
CREATE TABLE memsmith.audit_log (
    tenant text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    id text NOT NULL,
    memory_id text COLLATE "C" NOT NULL,
    action text NOT NULL,
    from_status text NOT NULL,
    to_status text NOT NULL,
    time text COLLATE "C" NOT NULL,
    actor text NOT NULL,
    payload text, -- canonical JSON; NULL once erased, together with its salt
    salt text,
    payload_digest text NOT NULL,
    prev_hash text NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (tenant, seq)
);

CREATE INDEX audit_memory ON memsmith.audit_log (tenant, memory_id, seq);

CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON memsmith.audit_log
EXECUTE FUNCTION memsmith.refuse();

CREATE FUNCTION memsmith.audit_log_goes_on() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM added JOIN memsmith.heads AS h USING (tenant) WHERE added.seq <= h.count) THEN
        RAISE restrict_violation USING MESSAGE = 'audit_log is append-only';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER audit_log_goes_on AFTER INSERT ON memsmith.audit_log
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memsmith.audit_log_goes_on();

-- The start of every writing transaction. Each statement of a function has a snapshot of its own, so the
-- head is read as it is once the lock is held. The lock ends with the transaction, and so do the settings.
CREATE FUNCTION memsmith.enter(
    its_tenant text, patience text,
    OUT its_count bigint, OUT its_hash text, OUT its_time timestamptz, OUT its_position text
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', patience, true), set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('memsmith ' || its_tenant, 0));
    SELECT h.count, h.hash, h.time INTO its_count, its_hash, its_time
    FROM memsmith.heads AS h WHERE h.tenant = its_tenant;
    its_position := pg_current_wal_insert_lsn()::text;
END
$$;

-- One flush serves everybody whose commits lie before it; whoever comes late finds it done.
CREATE FUNCTION memsmith.flush(upto pg_lsn) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_current_wal_flush_lsn() < upto IS NOT FALSE THEN
        IF current_setting('synchronous_commit') = 'off' THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
        PERFORM pg_logical_emit_message(true, 'memsmith', '');
    END IF;
END
$$;
