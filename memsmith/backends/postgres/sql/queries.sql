-- Every statement of the PostgreSQL backend, by name: the names are those of SQLite's. Values are always
-- bound; where pieces are joined to one statement, the numbers of later ones go on from the earlier.

-- name: head
-- The head record of a tenant's chain.
SELECT count, hash, time FROM memsmith.heads WHERE tenant = $1

-- name: put_head
-- Move the head; the row count and hash it names are those of the newest ledger row.
INSERT INTO memsmith.heads (
    tenant, count, hash, time
)
SELECT * FROM unnest(
    $1::text[], $2::int8[], $3::text[], $4::timestamptz[]
)
ON CONFLICT (tenant) DO UPDATE SET count = excluded.count, hash = excluded.hash, time = excluded.time

-- name: memory
-- One memory by id, whatever its status.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memsmith.memories WHERE tenant = $1 AND id = $2

-- name: memories_by_id
-- Memories by a JSON list of ids.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from
FROM json_array_elements_text($1::json) AS wanted (value) CROSS JOIN memsmith.memories AS m
WHERE m.tenant = $2 AND m.id = wanted.value

-- name: memories_by_value
-- Live memories by a JSON list of value digests.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from
FROM json_array_elements_text($1::json) AS wanted (value) CROSS JOIN memsmith.memories AS m
WHERE m.tenant = $2 AND m.value_digest = wanted.value AND m.status IN ('active', 'pending_confirmation')

-- name: chain_segments
-- The current segments of chains that end at or after a moment, by a JSON list of
-- [kind, scope, key, lane, moment, ...].
SELECT
    s.kind, s.scope, s.key, s.lane, s.memory_id, s.valid_from, s.valid_to, s.asserted_from,
    s.asserted_order, s.system_from
FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memory_segments AS s
WHERE s.tenant = $2
    AND memsmith.digest(s.key) = memsmith.digest(wanted.value ->> 2) AND s.key = (wanted.value ->> 2)
    AND memsmith.digest(s.scope) = memsmith.digest(wanted.value ->> 1) AND s.scope = (wanted.value ->> 1)
    AND s.kind = (wanted.value ->> 0)
    AND s.lane = (wanted.value ->> 3)
    AND s.system_to IS NULL
    AND s.valid_from >= coalesce(
        (
            SELECT first.valid_from FROM memsmith.memory_segments AS first
            WHERE first.tenant = $3
                AND memsmith.digest(first.key) = memsmith.digest(wanted.value ->> 2)
                AND first.key = (wanted.value ->> 2)
                AND memsmith.digest(first.scope) = memsmith.digest(wanted.value ->> 1)
                AND first.scope = (wanted.value ->> 1)
                AND first.kind = (wanted.value ->> 0)
                AND first.lane = (wanted.value ->> 3)
                AND first.system_to IS NULL
                AND first.valid_from < (wanted.value ->> 4)::timestamptz
            ORDER BY first.valid_from DESC LIMIT 1
        ),
        '-infinity'
    )
    AND (s.valid_to IS NULL OR s.valid_to >= (wanted.value ->> 4)::timestamptz)

-- name: chain_segments_joined
-- The same, by a list of [kind, scope, key, lane, moment, above]: neighbours of members that begin
-- after the last come as one, under no name, so that what is returned does not grow with the chain.
-- From where the first of them begins that never ends all is theirs: what follows is not looked at.
WITH asked AS MATERIALIZED (
    SELECT
        wanted.chain, wanted.value,
        (
            SELECT m.valid_from FROM memsmith.memories AS m
            WHERE m.tenant = $2
                AND memsmith.digest(m.key) = memsmith.digest(wanted.value ->> 2)
                AND m.key = (wanted.value ->> 2)
                AND memsmith.digest(m.scope) = memsmith.digest(wanted.value ->> 1)
                AND m.scope = (wanted.value ->> 1)
                AND m.kind = (wanted.value ->> 0)
                AND m.valid_from > (wanted.value ->> 5)::timestamptz
                AND m.valid_to IS NULL AND m.retracted_during = '[]' AND m.asserted_order > 0
                AND m.status IN ('active', 'superseded') AND m.many = 0
                AND (wanted.value ->> 3) = ''
            ORDER BY m.valid_from LIMIT 1
        ) AS lasting
    FROM json_array_elements($1::json) WITH ORDINALITY AS wanted (value, chain)
),
tail AS (
    SELECT
        wanted.chain, s.kind, s.scope, s.key, s.lane, s.memory_id, s.valid_from, s.valid_to,
        s.asserted_from, s.asserted_order, s.system_from,
        s.asserted_from > (wanted.value ->> 5)::timestamptz AS above
    FROM asked AS wanted CROSS JOIN memsmith.memory_segments AS s
    WHERE s.tenant = $3
        AND memsmith.digest(s.key) = memsmith.digest(wanted.value ->> 2) AND s.key = (wanted.value ->> 2)
        AND memsmith.digest(s.scope) = memsmith.digest(wanted.value ->> 1) AND s.scope = (wanted.value ->> 1)
        AND s.kind = (wanted.value ->> 0)
        AND s.lane = (wanted.value ->> 3)
        AND s.system_to IS NULL
        AND s.valid_from >= coalesce(
            (
                SELECT first.valid_from FROM memsmith.memory_segments AS first
                WHERE first.tenant = $4
                    AND memsmith.digest(first.key) = memsmith.digest(wanted.value ->> 2)
                    AND first.key = (wanted.value ->> 2)
                    AND memsmith.digest(first.scope) = memsmith.digest(wanted.value ->> 1)
                    AND first.scope = (wanted.value ->> 1)
                    AND first.kind = (wanted.value ->> 0)
                    AND first.lane = (wanted.value ->> 3)
                    AND first.system_to IS NULL
                    AND first.valid_from < (wanted.value ->> 4)::timestamptz
                ORDER BY first.valid_from DESC LIMIT 1
            ),
            '-infinity'
        )
        AND (s.valid_to IS NULL OR s.valid_to >= (wanted.value ->> 4)::timestamptz)
        AND s.valid_from < coalesce(wanted.lasting, 'infinity')
),
marked AS (
    SELECT
        tail.*,
        NOT (above AND lag(above, 1, false) OVER before AND lag(valid_to) OVER before = valid_from) AS begins
    FROM tail WINDOW before AS (PARTITION BY chain ORDER BY valid_from)
),
numbered AS (
    SELECT marked.*, sum(begins::int) OVER (PARTITION BY chain ORDER BY valid_from) AS run FROM marked
)
SELECT
    min(kind), min(scope), min(key), min(lane), CASE count(*) WHEN 1 THEN min(memory_id) ELSE '' END,
    min(valid_from), CASE count(valid_to) WHEN count(*) THEN max(valid_to) END, min(asserted_from),
    min(asserted_order), min(system_from)
FROM numbered
GROUP BY chain, run
UNION ALL
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, '', lasting, NULL, lasting, 0, lasting
FROM asked WHERE lasting IS NOT NULL

-- name: memories_by_slot
-- The memories that wait for a person on a slot, by a JSON list of [kind, scope, key, ...].
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from
FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memories AS m
WHERE m.tenant = $2
    AND memsmith.digest(m.key) = memsmith.digest(wanted.value ->> 2) AND m.key = (wanted.value ->> 2)
    AND memsmith.digest(m.scope) = memsmith.digest(wanted.value ->> 1) AND m.scope = (wanted.value ->> 1)
    AND m.kind = (wanted.value ->> 0)
    AND m.status = 'pending_confirmation'

-- name: memories_beneath
-- The counted members of a chain that cover any of an interval, by a JSON list of
-- [kind, scope, key, start, end or null, pruned]: where pruned, not those that an open-ended
-- member with nothing taken out of it covers from the start on.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from
FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memories AS m
WHERE m.tenant = $2
    AND memsmith.digest(m.key) = memsmith.digest(wanted.value ->> 2) AND m.key = (wanted.value ->> 2)
    AND memsmith.digest(m.scope) = memsmith.digest(wanted.value ->> 1) AND m.scope = (wanted.value ->> 1)
    AND m.kind = (wanted.value ->> 0)
    AND m.status IN ('active', 'superseded', 'expired', 'erased')
    AND m.asserted_order > 0
    AND m.many = 0
    AND m.valid_from < coalesce((wanted.value ->> 4)::timestamptz, 'infinity')
    AND (m.valid_to IS NULL OR m.valid_to > (wanted.value ->> 3)::timestamptz)
    AND (
        NOT (wanted.value ->> 5)::boolean
        OR m.valid_from >= coalesce(
            (
                SELECT max(base.valid_from) FROM memsmith.memories AS base
                WHERE base.tenant = $3
                    AND memsmith.digest(base.key) = memsmith.digest(wanted.value ->> 2)
                    AND base.key = (wanted.value ->> 2)
                    AND memsmith.digest(base.scope) = memsmith.digest(wanted.value ->> 1)
                    AND base.scope = (wanted.value ->> 1)
                    AND base.kind = (wanted.value ->> 0)
                    AND base.status IN ('active', 'superseded', 'expired', 'erased')
                    AND base.asserted_order > 0 AND base.many = 0 AND base.valid_to IS NULL
                    AND base.retracted_during = '[]'
                    AND base.id <> (wanted.value ->> 6)
                    AND base.valid_from <= (wanted.value ->> 3)::timestamptz
            ),
            '-infinity'
        )
    )

-- name: memories_handed_over
-- Above an id, ACTIVE keyed memories of which nothing is effective at or after a moment, and which
-- others cut short.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id, source,
    confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor, created_at,
    updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason, version, seq,
    retracted_during, asserted_order, displaces, many, system_from
FROM memsmith.memories AS m
WHERE tenant = $1 AND id > $2 AND key IS NOT NULL AND status = 'active' AND asserted_order > 0
    AND NOT EXISTS (
        SELECT 1 FROM memsmith.memory_segments AS s
        WHERE s.tenant = m.tenant AND s.memory_id = m.id AND s.system_to IS NULL
            AND (s.valid_to IS NULL OR s.valid_to > $3 OR s.valid_to = m.valid_to)
    )
ORDER BY id LIMIT $4

-- name: memories_due
-- Live memories whose time was over at a moment, the longest overdue first.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memsmith.memories
WHERE tenant = $1 AND expires_at <= $2 AND expires_at IS NOT NULL
    AND status IN ('active', 'pending_confirmation')
ORDER BY expires_at, id LIMIT $3

-- name: dependants
-- Which memories name these (a JSON list of ids) in depends_on.
SELECT d.parent, d.child
FROM json_array_elements_text($1::json) AS wanted (value) CROSS JOIN memsmith.dependencies AS d
WHERE d.tenant = $2 AND memsmith.digest(d.parent) = memsmith.digest(wanted.value)
    AND d.parent = wanted.value
ORDER BY d.child

-- name: insert_memory
-- A new memory.
INSERT INTO memsmith.memories (
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id, source,
    confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor, created_at,
    updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason, version, seq,
    retracted_during, asserted_order, displaces, many, system_from
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::float8[], $13::text[], $14::text[], $15::text[], $16::text[],
    $17::text[], $18::text[], $19::text[], $20::text[], $21::timestamptz[], $22::timestamptz[],
    $23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::timestamptz[], $27::text[],
    $28::int8[], $29::int8[], $30::text[], $31::int8[], $32::text[], $33::int4[], $34::timestamptz[]
)

-- name: update_memory
-- A changed memory; what is fixed when proposed is not among the columns.
UPDATE memsmith.memories AS m SET
    key = given.key, content = given.content, content_hash = given.content_hash, value_digest =
    given.value_digest, source = given.source, confidence = given.confidence, origin = given.origin,
    sensitivity = given.sensitivity, status = given.status, held_status = given.held_status, code =
    given.code, metadata = given.metadata, updated_at = given.updated_at, valid_from = given.valid_from,
    valid_to = given.valid_to, expires_at = given.expires_at, retracted_at = given.retracted_at,
    retraction_reason = given.retraction_reason, version = given.version, seq = given.seq, retracted_during
    = given.retracted_during, asserted_order = given.asserted_order, displaces = given.displaces, many =
    given.many, system_from = given.system_from
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::float8[], $13::text[], $14::text[], $15::text[], $16::text[],
    $17::text[], $18::text[], $19::text[], $20::text[], $21::timestamptz[], $22::timestamptz[],
    $23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::timestamptz[], $27::text[],
    $28::int8[], $29::int8[], $30::text[], $31::int8[], $32::text[], $33::int4[], $34::timestamptz[]
) AS given (
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id, source,
    confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor, created_at,
    updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason, version, seq,
    retracted_during, asserted_order, displaces, many, system_from
)
WHERE m.tenant = given.tenant AND m.id = given.id

-- name: insert_version
-- A version that was replaced, and when; the memory remembers that a version of it had no key.
WITH replaced AS (
    INSERT INTO memsmith.memory_history (
        tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id, source,
        confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor, created_at,
        updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason, version, seq,
        retracted_during, asserted_order, displaces, many, system_from, system_to
    )
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::text[], $11::text[], $12::float8[], $13::text[], $14::text[], $15::text[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[], $21::timestamptz[], $22::timestamptz[],
        $23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::timestamptz[], $27::text[],
        $28::int8[], $29::int8[], $30::text[], $31::int8[], $32::text[], $33::int4[], $34::timestamptz[],
        $35::timestamptz[]
    )
    RETURNING tenant, id, key
)
UPDATE memsmith.memories AS m SET was_unkeyed = true
FROM replaced
WHERE replaced.key IS NULL AND m.tenant = replaced.tenant AND m.id = replaced.id AND NOT m.was_unkeyed

-- name: close_segment
-- A segment is believed no longer, and from now on in a class by how long it was.
UPDATE memsmith.memory_segments AS s
SET system_to = given.system_to, class = memsmith.seconds_digits(s.system_from, given.system_to)
FROM unnest(
    $1::timestamptz[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[]
) AS given (system_to, tenant, memory_id, valid_from, system_from)
WHERE s.tenant = given.tenant AND s.memory_id = given.memory_id AND s.valid_from = given.valid_from
    AND s.system_from = given.system_from

-- name: drop_segment
-- A segment that an earlier verb of the same transaction wrote goes again.
DELETE FROM memsmith.memory_segments AS s
USING unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[])
    AS given (tenant, memory_id, valid_from, system_from)
WHERE s.tenant = given.tenant AND s.memory_id = given.memory_id AND s.valid_from = given.valid_from
    AND s.system_from = given.system_from

-- name: open_segment
-- A segment is believed; one opened and closed within a group of units comes closed.
INSERT INTO memsmith.memory_segments (
    tenant, memory_id, kind, scope, key, lane, valid_from, valid_to, asserted_from, asserted_order,
    system_from, system_to, created_at, class
)
SELECT
    given.*,
    (SELECT m.created_at FROM memsmith.memories AS m WHERE m.tenant = given.tenant
        AND m.id = given.memory_id),
    CASE WHEN system_to IS NULL THEN memsmith.seconds_digits(valid_from, valid_to)
        ELSE memsmith.seconds_digits(system_from, system_to) END
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
    $8::timestamptz[], $9::timestamptz[], $10::int8[], $11::timestamptz[], $12::timestamptz[]
) AS given (
    tenant, memory_id, kind, scope, key, lane, valid_from, valid_to, asserted_from, asserted_order,
    system_from, system_to
)

-- name: date_memory
-- What a migration takes from the ledger: where a memory stands in its chain, and since when it is so.
UPDATE memsmith.memories AS m SET asserted_order = given.asserted_order, system_from = given.system_from
FROM unnest($1::int8[], $2::timestamptz[], $3::text[], $4::text[])
    AS given (asserted_order, system_from, tenant, id)
WHERE m.tenant = given.tenant AND m.id = given.id

-- name: insert_dependency
-- One memory depends on another.
INSERT INTO memsmith.dependencies (
    tenant, parent, child
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[]
)

-- name: tombstones_by_digest
-- Tombstones by a JSON list of digests, lifted ones included.
SELECT
    t.tenant, t.id, t.memory_id, t.kind, t.scope, t.key, t.digest, t.secret_id, t.reason, t.actor,
    t.created_at, t.refused, t.lifted_at, t.lift_reason
FROM json_array_elements_text($1::json) AS wanted (value) CROSS JOIN memsmith.tombstones AS t
WHERE t.tenant = $2 AND t.digest = wanted.value
ORDER BY t.id

-- name: tombstones_by_id
-- Tombstones by a JSON list of ids.
SELECT
    t.tenant, t.id, t.memory_id, t.kind, t.scope, t.key, t.digest, t.secret_id, t.reason, t.actor,
    t.created_at, t.refused, t.lifted_at, t.lift_reason
FROM json_array_elements_text($1::json) AS wanted (value) CROSS JOIN memsmith.tombstones AS t
WHERE t.tenant = $2 AND t.id = wanted.value

-- name: tombstones
-- A page of tombstones in id order; the third value lets lifted ones in.
SELECT
    tenant, id, memory_id, kind, scope, key, digest, secret_id, reason, actor, created_at, refused,
    lifted_at, lift_reason
FROM memsmith.tombstones WHERE tenant = $1 AND id > $2 AND ($3::boolean OR lifted_at IS NULL)
ORDER BY id LIMIT $4

-- name: put_tombstone
-- A new tombstone, or a count or a lift of one.
INSERT INTO memsmith.tombstones (
    tenant, id, memory_id, kind, scope, key, digest, secret_id, reason, actor, created_at, refused,
    lifted_at, lift_reason
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::timestamptz[], $12::int8[], $13::timestamptz[], $14::text[]
)
ON CONFLICT (tenant, id) DO UPDATE SET
    refused = excluded.refused, lifted_at = excluded.lifted_at, lift_reason = excluded.lift_reason

-- name: outcomes
-- Outcomes by a JSON list of [actor, verb, idempotency key].
SELECT
    o.actor, o.verb, o.idempotency_key, o.codes, o.memory_ids, o.digest, o.at
FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.outcomes AS o
WHERE o.tenant = $2
    AND memsmith.digest(o.actor) = memsmith.digest(wanted.value ->> 0) AND o.actor = (wanted.value ->> 0)
    AND o.verb = (wanted.value ->> 1)
    AND memsmith.digest(o.idempotency_key) = memsmith.digest(wanted.value ->> 2)
    AND o.idempotency_key = (wanted.value ->> 2)

-- name: insert_outcome
-- What became of a call.
INSERT INTO memsmith.outcomes (
    tenant, actor, verb, idempotency_key, codes, memory_ids, digest, at
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[]
)

-- name: insert_row
-- The next row of the ledger.
INSERT INTO memsmith.audit_log (
    tenant, seq, id, memory_id, action, from_status, to_status, time, actor, payload, salt, payload_digest,
    prev_hash, hash
)
SELECT * FROM unnest(
    $1::text[], $2::int8[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[]
)

-- name: ledger
-- The ledger above a seq, oldest first.
SELECT
    seq, id, memory_id, action, from_status, to_status, time, actor, payload, salt, payload_digest,
    prev_hash, hash
FROM memsmith.audit_log WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT $3

-- name: audit
-- The ledger below a seq, newest first.
SELECT
    seq, id, memory_id, action, from_status, to_status, time, actor, payload, salt, payload_digest,
    prev_hash, hash
FROM memsmith.audit_log WHERE tenant = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3

-- name: audit_of_memory
-- The ledger of one memory below a seq, newest first.
SELECT
    seq, id, memory_id, action, from_status, to_status, time, actor, payload, salt, payload_digest,
    prev_hash, hash
FROM memsmith.audit_log WHERE tenant = $1 AND memory_id = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4

-- name: secrets
-- The digest secrets, oldest first.
SELECT id, secret FROM memsmith.secrets ORDER BY added_at, id

-- name: add_secret
-- A secret, unless it is known; the count orders them.
INSERT INTO memsmith.secrets (id, secret, added_at)
SELECT $1, $2::bytea, count(*) FROM memsmith.secrets
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: any_tenant
-- Whether anything was ever written, by any tenant.
SELECT tenant FROM memsmith.heads LIMIT 1

-- name: drop_secrets
-- Make room for the secrets of a restored store; only where nothing is keyed yet.
DELETE FROM memsmith.secrets

-- name: list
-- The start of a list; conditions, order and limit follow, each from this file.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memsmith.memories WHERE tenant = $1

-- name: list_at
-- Only what holds at a point of both times: the moment seven times, the moment of belief twice.
AND status IN ('active', 'superseded', 'expired') AND asserted_order > 0
AND (expires_at IS NULL OR expires_at > $1)
AND CASE WHEN key IS NULL THEN
    valid_from <= $2 AND (valid_to IS NULL OR valid_to > $3)
    AND (
        retracted_during = '[]'
        OR NOT EXISTS (
            SELECT 1 FROM json_array_elements(memories.retracted_during::json) AS taken (value)
            WHERE (taken.value ->> 0)::timestamptz <= $4
                AND coalesce((taken.value ->> 1)::timestamptz, 'infinity') > $5
        )
    )
ELSE
    EXISTS (
        SELECT 1 FROM memsmith.memory_segments AS s
        WHERE s.tenant = memories.tenant AND s.memory_id = memories.id
            AND s.valid_from <= $6 AND (s.valid_to IS NULL OR s.valid_to > $7)
            AND s.system_from <= $8 AND (s.system_to IS NULL OR s.system_to > $9)
        OFFSET 0 -- asked for each memory of a page, never for all at once
    )
END

-- name: list_present
-- Only what holds at a moment not before the newest unit, as believed by now: the moment seven times.
-- What is superseded or expired by then does not, so that the index of what is active serves.
AND status = 'active' AND asserted_order > 0
AND (expires_at IS NULL OR expires_at > $1)
AND CASE WHEN key IS NULL THEN
    valid_from <= $2 AND (valid_to IS NULL OR valid_to > $3)
    AND (
        retracted_during = '[]'
        OR NOT EXISTS (
            SELECT 1 FROM json_array_elements(memories.retracted_during::json) AS taken (value)
            WHERE (taken.value ->> 0)::timestamptz <= $4
                AND coalesce((taken.value ->> 1)::timestamptz, 'infinity') > $5
        )
    )
ELSE
    EXISTS (
        SELECT 1 FROM memsmith.memory_segments AS s
        WHERE s.tenant = memories.tenant AND s.memory_id = memories.id
            AND s.valid_from <= $6 AND (s.valid_to IS NULL OR s.valid_to > $7)
            AND s.system_to IS NULL
        OFFSET 0 -- asked for each memory of a page, never for all at once
    )
END

-- name: list_known
-- Only versions that were there by a moment; those replaced since come from the history.
AND created_at <= $1 AND system_from <= $2

-- name: list_unkeyed
-- Only what has no key, where those with one are found by what is effective of them.
AND key IS NULL

-- name: list_few
-- The start of a list of some memories that have a key, by a JSON list of their ids.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memsmith.memories
WHERE tenant = $1 AND id IN (SELECT json_array_elements_text($2::json)) AND key IS NOT NULL

-- name: count_few
-- How many there are of some memories that have a key; conditions follow.
SELECT count(*) FROM memsmith.memories
WHERE tenant = $1 AND id IN (SELECT json_array_elements_text($2::json)) AND key IS NOT NULL

-- name: few_valid
-- Whose segments, of those still believed, cover a moment, by a JSON list of [class, no start before].
SELECT its_creation, its_id FROM (
    SELECT s.created_at AS its_creation, s.memory_id AS its_id
    FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memory_segments AS s
    WHERE s.tenant = $2 AND s.system_to IS NULL AND s.class = coalesce((wanted.value ->> 0)::int, 0)
        AND s.valid_from >= (wanted.value ->> 1)::timestamptz AND s.valid_from <= $3
        AND (s.valid_to IS NULL OR s.valid_to > $4) AND s.system_from <= $5
) AS found
WHERE true

-- name: few_believed
-- Whose segments, of those no longer believed, cover a moment of each time; classes of system time.
SELECT its_creation, its_id FROM (
    SELECT s.created_at AS its_creation, s.memory_id AS its_id
    FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memory_segments AS s
    WHERE s.tenant = $2 AND s.system_to IS NOT NULL AND s.class = coalesce((wanted.value ->> 0)::int, 0)
        AND s.system_from >= (wanted.value ->> 1)::timestamptz AND s.system_from <= $3 AND s.system_to > $4
        AND s.valid_from <= $5 AND (s.valid_to IS NULL OR s.valid_to > $6)
) AS found
WHERE true

-- name: few_valid_on_key
-- The same on one key, by a JSON list of [class, no start before, scope, kind].
SELECT its_creation, its_id FROM (
    SELECT s.created_at AS its_creation, s.memory_id AS its_id
    FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memory_segments AS s
    WHERE s.tenant = $2 AND memsmith.digest(s.key) = memsmith.digest($3) AND s.key = $3
        AND s.system_to IS NULL
        AND memsmith.digest(s.scope) = memsmith.digest(wanted.value ->> 2) AND s.scope = (wanted.value ->> 2)
        AND s.kind = (wanted.value ->> 3)
        AND s.class = coalesce((wanted.value ->> 0)::int, 0)
        AND s.valid_from >= (wanted.value ->> 1)::timestamptz AND s.valid_from <= $4
        AND (s.valid_to IS NULL OR s.valid_to > $5) AND s.system_from <= $6
) AS found
WHERE true

-- name: few_believed_on_key
-- The same on one key, by a JSON list of [class, no start before, scope, kind].
SELECT its_creation, its_id FROM (
    SELECT s.created_at AS its_creation, s.memory_id AS its_id
    FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memory_segments AS s
    WHERE s.tenant = $2 AND memsmith.digest(s.key) = memsmith.digest($3) AND s.key = $3
        AND s.system_to IS NOT NULL
        AND memsmith.digest(s.scope) = memsmith.digest(wanted.value ->> 2) AND s.scope = (wanted.value ->> 2)
        AND s.kind = (wanted.value ->> 3)
        AND s.class = coalesce((wanted.value ->> 0)::int, 0)
        AND s.system_from >= (wanted.value ->> 1)::timestamptz AND s.system_from <= $4 AND s.system_to > $5
        AND s.valid_from <= $6 AND (s.valid_to IS NULL OR s.valid_to > $7)
) AS found
WHERE true

-- name: slots_on_key
-- Scopes and kinds in which a key is or was, as many as asked for, a few steps into an index for each.
WITH RECURSIVE slots (place, scope, kind) AS (
    SELECT ''::bytea, ''::text COLLATE "C", ''::text COLLATE "C"
    UNION ALL
    SELECT next.place, next.scope, next.kind
    FROM slots CROSS JOIN LATERAL (
        SELECT either.place, either.scope, either.kind FROM (
            (
                SELECT memsmith.digest(s.scope) AS place, s.scope, s.kind FROM memsmith.memory_segments AS s
                WHERE s.tenant = $1 AND memsmith.digest(s.key) = memsmith.digest($2) AND s.key = $2
                    AND s.system_to IS NULL
                    AND (memsmith.digest(s.scope), s.kind) > (slots.place, slots.kind)
                ORDER BY memsmith.digest(s.scope), s.kind LIMIT 1
            )
            UNION ALL
            (
                SELECT memsmith.digest(s.scope) AS place, s.scope, s.kind FROM memsmith.memory_segments AS s
                WHERE s.tenant = $3 AND memsmith.digest(s.key) = memsmith.digest($4) AND s.key = $4
                    AND s.system_to IS NOT NULL
                    AND (memsmith.digest(s.scope), s.kind) > (slots.place, slots.kind)
                ORDER BY memsmith.digest(s.scope), s.kind LIMIT 1
            )
        ) AS either
        ORDER BY either.place, either.kind LIMIT 1
    ) AS next
)
SELECT scope, kind FROM slots WHERE kind <> '' LIMIT $5

-- name: few_changed
-- Which memories were there at a moment of belief and changed since.
SELECT its_creation, its_id FROM (
    SELECT m.created_at AS its_creation, m.id AS its_id
    FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memories AS m
    WHERE m.tenant = $2 AND m.system_from > m.created_at
        AND m.changed_class = coalesce((wanted.value ->> 0)::int, 0)
        AND m.created_at >= (wanted.value ->> 1)::timestamptz AND m.created_at <= $3 AND m.system_from > $4
) AS found
WHERE true

-- name: few_unkeyed
-- Which of those have no key, or had none once.
SELECT its_creation, its_id FROM (
    SELECT m.created_at AS its_creation, m.id AS its_id
    FROM json_array_elements($1::json) AS wanted (value) CROSS JOIN memsmith.memories AS m
    WHERE m.tenant = $2 AND m.system_from > m.created_at AND (m.key IS NULL OR m.was_unkeyed)
        AND m.changed_class = coalesce((wanted.value ->> 0)::int, 0)
        AND m.created_at >= (wanted.value ->> 1)::timestamptz AND m.created_at <= $3 AND m.system_from > $4
) AS found
WHERE true

-- name: list_replaced
-- The start of a list of some memories in the versions that a moment of belief had and that were
-- replaced since, by a JSON list of their ids; what was quarantined or erased since is left out.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memsmith.memory_history AS memories
WHERE tenant = $1 AND id IN (SELECT json_array_elements_text($2::json))
    AND system_from <= $3 AND system_to > $4
    AND NOT EXISTS (
        SELECT 1 FROM memsmith.memories AS m
        WHERE m.tenant = memories.tenant AND m.id = memories.id AND m.status IN ('quarantined', 'erased')
    )

-- name: count_replaced
-- How many of some memories had versions that were replaced since; conditions follow.
SELECT count(*) FROM memsmith.memory_history AS memories
WHERE tenant = $1 AND id IN (SELECT json_array_elements_text($2::json))
    AND system_from <= $3 AND system_to > $4
    AND NOT EXISTS (
        SELECT 1 FROM memsmith.memories AS m
        WHERE m.tenant = memories.tenant AND m.id = memories.id AND m.status IN ('quarantined', 'erased')
    )

-- name: list_active
-- What was superseded or expired by the moment of belief holds at no moment from then on.
AND status = 'active'

-- name: list_past
-- The start of a list of the versions that a moment of belief had and that were replaced since; what
-- was quarantined or erased since is left out at every point.
SELECT
    memories.tenant, memories.id, memories.kind, memories.scope, memories.key, memories.content,
    memories.content_hash, memories.value_digest, memories.session_id, memories.thread_id,
    memories.source, memories.confidence, memories.origin, memories.sensitivity, memories.status,
    memories.held_status, memories.code, memories.depends_on, memories.metadata, memories.actor,
    memories.created_at, memories.updated_at, memories.valid_from, memories.valid_to,
    memories.expires_at, memories.retracted_at, memories.retraction_reason, memories.version,
    memories.seq, memories.retracted_during, memories.asserted_order, memories.displaces, memories.many,
    memories.system_from
FROM (
    SELECT tenant AS its_tenant, id AS its_id, created_at AS its_creation FROM memsmith.memories
    WHERE tenant = $1 AND created_at <= $2 AND system_from > $3 AND status NOT IN ('quarantined', 'erased')
) AS changed CROSS JOIN memsmith.memory_history AS memories
WHERE memories.tenant = its_tenant AND memories.id = its_id
    AND memories.system_from <= $4 AND memories.system_to > $5

-- name: count
-- How many there are; conditions follow.
SELECT count(*) FROM memsmith.memories WHERE tenant = $1

-- name: count_past
-- How many versions there were that were replaced since; conditions follow.
SELECT count(*)
FROM (
    SELECT tenant AS its_tenant, id AS its_id FROM memsmith.memories
    WHERE tenant = $1 AND created_at <= $2 AND system_from > $3 AND status NOT IN ('quarantined', 'erased')
) AS changed CROSS JOIN memsmith.memory_history AS memories
WHERE memories.tenant = its_tenant AND memories.id = its_id
    AND memories.system_from <= $4 AND memories.system_to > $5

-- name: past_after_created_at_asc
-- Past the last row seen, by the creation of the memory.
AND (its_creation, its_id) > ($1, $2)

-- name: past_by_created_at_asc
-- In order of the memory's creation; ids break ties.
ORDER BY its_creation, its_id LIMIT $1 OFFSET $2

-- name: past_after_created_at_desc
-- Past the last row seen, by the creation of the memory.
AND (its_creation, its_id) < ($1, $2)

-- name: past_by_created_at_desc
-- In order of the memory's creation; ids break ties.
ORDER BY its_creation DESC, its_id DESC LIMIT $1 OFFSET $2

-- name: members
-- The ids of the memories that have a key, or had it once.
SELECT id FROM memsmith.memories WHERE tenant = $1 AND memsmith.digest(key) = memsmith.digest($2) AND key = $2
    AND memsmith.digest(scope) = memsmith.digest($3) AND scope = $3 AND kind = $4
UNION
SELECT id FROM memsmith.memory_history
WHERE tenant = $5 AND memsmith.digest(key) = memsmith.digest($6) AND key = $6
    AND memsmith.digest(scope) = memsmith.digest($7) AND scope = $7 AND kind = $8

-- name: strays
-- Ids that history or segments name and no memory has.
SELECT h.id FROM memsmith.memory_history AS h
WHERE h.tenant = $1 AND NOT EXISTS (SELECT 1 FROM memsmith.memories AS m WHERE m.tenant = h.tenant
    AND m.id = h.id)
UNION
SELECT s.memory_id FROM memsmith.memory_segments AS s
WHERE s.tenant = $2
    AND NOT EXISTS (SELECT 1 FROM memsmith.memories AS m WHERE m.tenant = s.tenant AND m.id = s.memory_id)

-- name: versions
-- Every version of memories, by a JSON list of ids, with the ledger row that made it.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from,
    NULL AS system_to, a.action, a.actor, a.payload
FROM json_array_elements_text($1::json) AS wanted (value) CROSS JOIN memsmith.memories AS m
CROSS JOIN memsmith.audit_log AS a
WHERE m.tenant = $2 AND m.id = wanted.value AND a.tenant = m.tenant AND a.seq = m.seq
UNION ALL
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from,
    m.system_to, a.action, a.actor, a.payload
FROM json_array_elements_text($3::json) AS wanted (value) CROSS JOIN memsmith.memory_history AS m
CROSS JOIN memsmith.audit_log AS a
WHERE m.tenant = $4 AND m.id = wanted.value AND a.tenant = m.tenant AND a.seq = m.seq

-- name: segments
-- What was ever effective of memories, by a JSON list of ids.
SELECT
    s.kind, s.scope, s.key, s.lane, s.memory_id, s.valid_from, s.valid_to, s.asserted_from,
    s.asserted_order, s.system_from, s.system_to
FROM json_array_elements_text($1::json) AS wanted (value) CROSS JOIN memsmith.memory_segments AS s
WHERE s.tenant = $2 AND s.memory_id = wanted.value
ORDER BY s.memory_id, s.valid_from, s.system_from

-- name: row_time
-- When a ledger row was written.
SELECT time FROM memsmith.audit_log WHERE tenant = $1 AND seq = $2

-- name: list_where_actor
-- Exactly this actor; NULL matches NULL.
AND (actor = $1::text OR ($1::text IS NULL AND actor IS NULL))

-- name: list_where_code
-- Exactly this code; NULL matches NULL.
AND (code = $1::text OR ($1::text IS NULL AND code IS NULL))

-- name: list_where_confidence
-- Exactly this confidence; NULL matches NULL.
AND (confidence = $1::float8 OR ($1::float8 IS NULL AND confidence IS NULL))

-- name: list_where_content_hash
-- Exactly this content_hash; NULL matches NULL.
AND (content_hash = $1::text OR ($1::text IS NULL AND content_hash IS NULL))

-- name: list_where_created_at
-- Exactly this created_at; NULL matches NULL.
AND (created_at = $1::timestamptz OR ($1::timestamptz IS NULL AND created_at IS NULL))

-- name: list_where_depends_on
-- Exactly this depends_on; NULL matches NULL.
AND (depends_on = $1::text OR ($1::text IS NULL AND depends_on IS NULL))

-- name: list_where_expires_at
-- Exactly this expires_at; NULL matches NULL.
AND (expires_at = $1::timestamptz OR ($1::timestamptz IS NULL AND expires_at IS NULL))

-- name: list_where_id
-- Exactly this id; NULL matches NULL.
AND (id = $1::text OR ($1::text IS NULL AND id IS NULL))

-- name: list_where_key
-- Exactly this key; NULL matches NULL.
AND (
    (memsmith.digest(key) = memsmith.digest($1::text) AND key = $1::text)
    OR ($1::text IS NULL AND key IS NULL)
)

-- name: list_where_kind
-- Exactly this kind; NULL matches NULL.
AND (kind = $1::text OR ($1::text IS NULL AND kind IS NULL))

-- name: list_where_origin
-- Exactly this origin; NULL matches NULL.
AND (origin = $1::text OR ($1::text IS NULL AND origin IS NULL))

-- name: list_where_retracted_at
-- Exactly this retracted_at; NULL matches NULL.
AND (retracted_at = $1::timestamptz OR ($1::timestamptz IS NULL AND retracted_at IS NULL))

-- name: list_where_retraction_reason
-- Exactly this retraction_reason; NULL matches NULL.
AND (retraction_reason = $1::text OR ($1::text IS NULL AND retraction_reason IS NULL))

-- name: list_where_scope
-- Exactly this scope; NULL matches NULL.
AND (scope = $1::text OR ($1::text IS NULL AND scope IS NULL))

-- name: list_where_sensitivity
-- Exactly this sensitivity; NULL matches NULL.
AND (sensitivity = $1::text OR ($1::text IS NULL AND sensitivity IS NULL))

-- name: list_where_session_id
-- Exactly this session_id.
AND memsmith.digest(session_id) = memsmith.digest($1::text) AND session_id = $1::text

-- name: list_where_source
-- Exactly this source; NULL matches NULL.
AND (source = $1::text OR ($1::text IS NULL AND source IS NULL))

-- name: list_where_status
-- Exactly this status; NULL matches NULL.
AND (status = $1::text OR ($1::text IS NULL AND status IS NULL))

-- name: list_where_thread_id
-- Exactly this thread_id; NULL matches NULL.
AND (thread_id = $1::text OR ($1::text IS NULL AND thread_id IS NULL))

-- name: list_where_updated_at
-- Exactly this updated_at; NULL matches NULL.
AND (updated_at = $1::timestamptz OR ($1::timestamptz IS NULL AND updated_at IS NULL))

-- name: list_where_valid_from
-- Exactly this valid_from; NULL matches NULL.
AND (valid_from = $1::timestamptz OR ($1::timestamptz IS NULL AND valid_from IS NULL))

-- name: list_where_valid_to
-- Exactly this valid_to; NULL matches NULL.
AND (valid_to = $1::timestamptz OR ($1::timestamptz IS NULL AND valid_to IS NULL))

-- name: list_where_version
-- Exactly this version; NULL matches NULL.
AND (version = $1::float8 OR ($1::float8 IS NULL AND version IS NULL))

-- name: list_where_content
-- Exactly this scalar at a JSON path: of one JSON type, and with any of the texts it may have.
AND memsmith.scalar_at(content, $1::text[], $2) = ANY ($3::text[])

-- name: list_after_created_at_asc
-- Past the last row seen, by created_at.
AND (created_at, id) > ($1, $2)

-- name: list_by_created_at_asc
-- In order of created_at; ids break ties.
ORDER BY created_at, id LIMIT $1 OFFSET $2

-- name: list_after_created_at_desc
-- Past the last row seen, by created_at.
AND (created_at, id) < ($1, $2)

-- name: list_by_created_at_desc
-- In order of created_at; ids break ties.
ORDER BY created_at DESC, id DESC LIMIT $1 OFFSET $2

-- name: list_after_updated_at_asc
-- Past the last row seen, by updated_at.
AND (updated_at, id) > ($1, $2)

-- name: list_by_updated_at_asc
-- In order of updated_at; ids break ties.
ORDER BY updated_at, id LIMIT $1 OFFSET $2

-- name: list_after_updated_at_desc
-- Past the last row seen, by updated_at.
AND (updated_at, id) < ($1, $2)

-- name: list_by_updated_at_desc
-- In order of updated_at; ids break ties.
ORDER BY updated_at DESC, id DESC LIMIT $1 OFFSET $2

-- name: list_after_confidence_asc
-- Past the last row seen, by confidence.
AND (confidence, id) > ($1, $2)

-- name: list_by_confidence_asc
-- In order of confidence; ids break ties.
ORDER BY confidence, id LIMIT $1 OFFSET $2

-- name: list_after_confidence_desc
-- Past the last row seen, by confidence.
AND (confidence, id) < ($1, $2)

-- name: list_by_confidence_desc
-- In order of confidence; ids break ties.
ORDER BY confidence DESC, id DESC LIMIT $1 OFFSET $2

-- name: list_after_status_asc
-- Past the last row seen, by status.
AND (status, id) > ($1, $2)

-- name: list_by_status_asc
-- In order of status; ids break ties.
ORDER BY status, id LIMIT $1 OFFSET $2

-- name: list_after_status_desc
-- Past the last row seen, by status.
AND (status, id) < ($1, $2)

-- name: list_by_status_desc
-- In order of status; ids break ties.
ORDER BY status DESC, id DESC LIMIT $1 OFFSET $2

-- name: list_after_session_id_asc
-- Past the last row seen, by session_id.
AND (session_id, id) > ($1, $2)

-- name: list_by_session_id_asc
-- In order of session_id; ids break ties.
ORDER BY session_id, id LIMIT $1 OFFSET $2

-- name: list_after_session_id_desc
-- Past the last row seen, by session_id.
AND (session_id, id) < ($1, $2)

-- name: list_by_session_id_desc
-- In order of session_id; ids break ties.
ORDER BY session_id DESC, id DESC LIMIT $1 OFFSET $2
