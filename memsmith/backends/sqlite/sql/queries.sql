-- Every statement of the SQLite backend, by name. Values are always bound.

-- name: head
-- The head record of a tenant's chain.
SELECT count, hash, time FROM heads WHERE tenant = ?

-- name: put_head
-- Move the head; the row count and hash it names are those of the newest ledger row.
INSERT INTO heads (tenant, count, hash, time) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant) DO UPDATE SET count = excluded.count, hash = excluded.hash, time = excluded.time

-- name: memory
-- One memory by id, whatever its status.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memories WHERE tenant = ? AND id = ?

-- name: memories_by_id
-- Memories by a JSON list of ids.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ? AND m.id = wanted.value

-- name: memories_by_value
-- Live memories by a JSON list of value digests.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ? AND m.value_digest = wanted.value AND m.status IN ('active', 'pending_confirmation')

-- name: chain_segments
-- The current segments of chains that end at or after a moment, by a JSON list of
-- [kind, scope, key, lane, moment, ...].
SELECT
    s.kind, s.scope, s.key, s.lane, s.memory_id, s.valid_from, s.valid_to, s.asserted_from,
    s.asserted_order, s.system_from
FROM json_each(?) AS wanted CROSS JOIN memory_segments AS s
WHERE s.tenant = ?
    AND s.key = json_extract(wanted.value, '$[2]')
    AND s.scope = json_extract(wanted.value, '$[1]')
    AND s.kind = json_extract(wanted.value, '$[0]')
    AND s.lane = json_extract(wanted.value, '$[3]')
    AND s.system_to IS NULL
    AND s.valid_from >= coalesce(
        (
            SELECT first.valid_from FROM memory_segments AS first
            WHERE first.tenant = ?
                AND first.key = json_extract(wanted.value, '$[2]')
                AND first.scope = json_extract(wanted.value, '$[1]')
                AND first.kind = json_extract(wanted.value, '$[0]')
                AND first.lane = json_extract(wanted.value, '$[3]')
                AND first.system_to IS NULL
                AND first.valid_from < json_extract(wanted.value, '$[4]')
            ORDER BY first.valid_from DESC LIMIT 1
        ),
        ''
    )
    AND (s.valid_to IS NULL OR s.valid_to >= json_extract(wanted.value, '$[4]'))

-- name: chain_segments_joined
-- The same, by a list of [kind, scope, key, lane, moment, above]: neighbours of members that begin
-- after the last come as one, under no name, so that what is returned does not grow with the chain.
-- From where the first of them begins that never ends all is theirs: what follows is not looked at.
WITH given AS (SELECT wanted.key AS chain, wanted.value FROM json_each(?) AS wanted),
asked AS MATERIALIZED (
    SELECT
        wanted.chain, wanted.value,
        (
            SELECT m.valid_from FROM memories AS m
            WHERE m.tenant = ?
                AND m.key = json_extract(wanted.value, '$[2]')
                AND m.scope = json_extract(wanted.value, '$[1]')
                AND m.kind = json_extract(wanted.value, '$[0]')
                AND m.valid_from > json_extract(wanted.value, '$[5]')
                AND m.valid_to IS NULL AND m.retracted_during = '[]' AND m.asserted_order > 0
                AND m.status IN ('active', 'superseded') AND NOT m.many
                AND json_extract(wanted.value, '$[3]') = ''
            ORDER BY m.valid_from LIMIT 1
        ) AS lasting
    FROM given AS wanted
),
tail AS (
    SELECT
        wanted.chain, s.kind, s.scope, s.key, s.lane, s.memory_id, s.valid_from, s.valid_to,
        s.asserted_from, s.asserted_order, s.system_from,
        s.asserted_from > json_extract(wanted.value, '$[5]') AS above
    FROM asked AS wanted CROSS JOIN memory_segments AS s
    WHERE s.tenant = ?
        AND s.key = json_extract(wanted.value, '$[2]')
        AND s.scope = json_extract(wanted.value, '$[1]')
        AND s.kind = json_extract(wanted.value, '$[0]')
        AND s.lane = json_extract(wanted.value, '$[3]')
        AND s.system_to IS NULL
        AND s.valid_from >= coalesce(
            (
                SELECT first.valid_from FROM memory_segments AS first
                WHERE first.tenant = ?
                    AND first.key = json_extract(wanted.value, '$[2]')
                    AND first.scope = json_extract(wanted.value, '$[1]')
                    AND first.kind = json_extract(wanted.value, '$[0]')
                    AND first.lane = json_extract(wanted.value, '$[3]')
                    AND first.system_to IS NULL
                    AND first.valid_from < json_extract(wanted.value, '$[4]')
                ORDER BY first.valid_from DESC LIMIT 1
            ),
            ''
        )
        AND (s.valid_to IS NULL OR s.valid_to >= json_extract(wanted.value, '$[4]'))
        AND s.valid_from < coalesce(wanted.lasting, '~')
),
marked AS (
    SELECT
        tail.*,
        NOT (above AND lag(above, 1, 0) OVER before AND lag(valid_to) OVER before = valid_from) AS begins
    FROM tail WINDOW before AS (PARTITION BY chain ORDER BY valid_from)
),
numbered AS (
    SELECT marked.*, sum(begins) OVER (PARTITION BY chain ORDER BY valid_from) AS run FROM marked
)
SELECT
    kind, scope, key, lane, iif(count(*) = 1, memory_id, ''), min(valid_from),
    iif(count(valid_to) = count(*), max(valid_to), NULL), min(asserted_from), min(asserted_order),
    min(system_from)
FROM numbered
GROUP BY chain, run
UNION ALL
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), '', lasting, NULL, lasting, 0, lasting
FROM asked WHERE lasting IS NOT NULL

-- name: memories_by_slot
-- The memories that wait for a person on a slot, by a JSON list of [kind, scope, key, ...].
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ?
    AND m.key = json_extract(wanted.value, '$[2]')
    AND m.scope = json_extract(wanted.value, '$[1]')
    AND m.kind = json_extract(wanted.value, '$[0]')
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
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ?
    AND m.key = json_extract(wanted.value, '$[2]')
    AND m.scope = json_extract(wanted.value, '$[1]')
    AND m.kind = json_extract(wanted.value, '$[0]')
    AND m.status IN ('active', 'superseded', 'expired', 'erased')
    AND m.asserted_order > 0
    AND m.many = 0
    AND m.valid_from < coalesce(json_extract(wanted.value, '$[4]'), '~')
    AND (m.valid_to IS NULL OR m.valid_to > json_extract(wanted.value, '$[3]'))
    AND (
        NOT json_extract(wanted.value, '$[5]')
        OR m.valid_from >= coalesce(
            (
                SELECT max(base.valid_from) FROM memories AS base
                WHERE base.tenant = ?
                    AND base.key = json_extract(wanted.value, '$[2]')
                    AND base.scope = json_extract(wanted.value, '$[1]')
                    AND base.kind = json_extract(wanted.value, '$[0]')
                    AND base.status IN ('active', 'superseded', 'expired', 'erased')
                    AND base.asserted_order > 0 AND base.many = 0 AND base.valid_to IS NULL
                    AND base.retracted_during = '[]'
                    AND base.id <> json_extract(wanted.value, '$[6]')
                    AND base.valid_from <= json_extract(wanted.value, '$[3]')
            ),
            ''
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
FROM memories AS m
WHERE tenant = ? AND id > ? AND key IS NOT NULL AND status = 'active' AND asserted_order > 0
    AND NOT EXISTS (
        SELECT 1 FROM memory_segments AS s
        WHERE s.tenant = m.tenant AND s.memory_id = m.id AND s.system_to IS NULL
            AND (s.valid_to IS NULL OR s.valid_to > ? OR s.valid_to = m.valid_to)
    )
ORDER BY id LIMIT ?

-- name: memories_due
-- Live memories whose time was over at a moment, the longest overdue first.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memories
WHERE tenant = ? AND expires_at <= ? AND expires_at IS NOT NULL AND status IN ('active', 'pending_confirmation')
ORDER BY expires_at, id LIMIT ?

-- name: dependants
-- Which memories name these (a JSON list of ids) in depends_on.
SELECT d.parent, d.child
FROM json_each(?) AS wanted CROSS JOIN dependencies AS d
WHERE d.tenant = ? AND d.parent = wanted.value
ORDER BY d.child

-- name: insert_memory
-- A new memory.
INSERT INTO memories (
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
) VALUES (
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)

-- name: update_memory
-- A changed memory; what is fixed when proposed is not among the columns.
UPDATE memories SET
    key = :key, content = :content, content_hash = :content_hash, value_digest = :value_digest,
    source = :source, confidence = :confidence, origin = :origin, sensitivity = :sensitivity, status
    = :status, held_status = :held_status, code = :code, metadata = :metadata, updated_at =
    :updated_at, valid_from = :valid_from, valid_to = :valid_to, expires_at = :expires_at,
    retracted_at = :retracted_at, retraction_reason = :retraction_reason, version = :version, seq =
    :seq, retracted_during = :retracted_during, asserted_order = :asserted_order, displaces =
    :displaces, many = :many, system_from = :system_from
WHERE tenant = :tenant AND id = :id

-- name: insert_version
-- A version that was replaced, and when.
INSERT INTO memory_history (
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id, source,
    confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor, created_at,
    updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason, version, seq,
    retracted_during, asserted_order, displaces, many, system_from, system_to
) VALUES (
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)

-- name: close_segment
-- A segment is believed no longer, and from now on in a class by how long it was.
UPDATE memory_segments SET (system_to, class) = (
    SELECT given.moment, length(CAST((julianday(given.moment) - julianday(system_from)) * 86400 AS INTEGER))
    FROM (SELECT ? AS moment) AS given
)
WHERE tenant = ? AND memory_id = ? AND valid_from = ? AND system_from = ?

-- name: drop_segment
-- A segment that an earlier verb of the same transaction wrote goes again.
DELETE FROM memory_segments WHERE tenant = ? AND memory_id = ? AND valid_from = ? AND system_from = ?

-- name: open_segment
-- A segment is believed; one opened and closed within a group of units comes closed.
WITH given (
    tenant, memory_id, kind, scope, key, lane, valid_from, valid_to, asserted_from, asserted_order,
    system_from, system_to
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO memory_segments (
    tenant, memory_id, kind, scope, key, lane, valid_from, valid_to, asserted_from, asserted_order,
    system_from, system_to, created_at, class
)
SELECT
    given.*,
    (SELECT m.created_at FROM memories AS m WHERE m.tenant = given.tenant AND m.id = given.memory_id),
    length(CAST((julianday(iif(system_to IS NULL, valid_to, system_to))
        - julianday(iif(system_to IS NULL, valid_from, system_from))) * 86400 AS INTEGER))
FROM given

-- name: date_memory
-- What a migration takes from the ledger: where a memory stands in its chain, and since when it is so.
UPDATE memories SET asserted_order = ?, system_from = ? WHERE tenant = ? AND id = ?

-- name: insert_dependency
-- One memory depends on another.
INSERT INTO dependencies (tenant, parent, child) VALUES (?, ?, ?)

-- name: tombstones_by_digest
-- Tombstones by a JSON list of digests, lifted ones included.
SELECT
    t.tenant, t.id, t.memory_id, t.kind, t.scope, t.key, t.digest, t.secret_id, t.reason, t.actor,
    t.created_at, t.refused, t.lifted_at, t.lift_reason
FROM json_each(?) AS wanted CROSS JOIN tombstones AS t
WHERE t.tenant = ? AND t.digest = wanted.value
ORDER BY t.id

-- name: tombstones_by_id
-- Tombstones by a JSON list of ids.
SELECT
    t.tenant, t.id, t.memory_id, t.kind, t.scope, t.key, t.digest, t.secret_id, t.reason, t.actor,
    t.created_at, t.refused, t.lifted_at, t.lift_reason
FROM json_each(?) AS wanted CROSS JOIN tombstones AS t
WHERE t.tenant = ? AND t.id = wanted.value

-- name: tombstones
-- A page of tombstones in id order; the third value lets lifted ones in.
SELECT
    tenant, id, memory_id, kind, scope, key, digest, secret_id, reason, actor, created_at, refused,
    lifted_at, lift_reason
FROM tombstones WHERE tenant = ? AND id > ? AND (? OR lifted_at IS NULL)
ORDER BY id LIMIT ?

-- name: put_tombstone
-- A new tombstone, or a count or a lift of one.
INSERT INTO tombstones (
    tenant, id, memory_id, kind, scope, key, digest, secret_id, reason, actor, created_at, refused,
    lifted_at, lift_reason
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
    refused = excluded.refused, lifted_at = excluded.lifted_at, lift_reason = excluded.lift_reason

-- name: outcomes
-- Outcomes by a JSON list of [actor, verb, idempotency key].
SELECT
    o.actor, o.verb, o.idempotency_key, o.codes, o.memory_ids, o.digest, o.at
FROM json_each(?) AS wanted CROSS JOIN outcomes AS o
WHERE o.tenant = ?
    AND o.actor = json_extract(wanted.value, '$[0]')
    AND o.verb = json_extract(wanted.value, '$[1]')
    AND o.idempotency_key = json_extract(wanted.value, '$[2]')

-- name: insert_outcome
-- What became of a call.
INSERT INTO outcomes (tenant, actor, verb, idempotency_key, codes, memory_ids, digest, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_row
-- The next row of the ledger.
INSERT INTO audit_log (
    tenant, seq, id, memory_id, action, from_status, to_status, time, actor, payload, salt,
    payload_digest, prev_hash, hash
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: ledger
-- The ledger above a seq, oldest first.
SELECT
    seq, id, memory_id, action, from_status, to_status, time, actor, payload, salt, payload_digest,
    prev_hash, hash
FROM audit_log WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: audit
-- The ledger below a seq, newest first.
SELECT
    seq, id, memory_id, action, from_status, to_status, time, actor, payload, salt, payload_digest,
    prev_hash, hash
FROM audit_log WHERE tenant = ? AND seq < ? ORDER BY seq DESC LIMIT ?

-- name: audit_of_memory
-- The ledger of one memory below a seq, newest first.
SELECT
    seq, id, memory_id, action, from_status, to_status, time, actor, payload, salt, payload_digest,
    prev_hash, hash
FROM audit_log WHERE tenant = ? AND memory_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?

-- name: secrets
-- The digest secrets, oldest first.
SELECT id, secret FROM secrets ORDER BY added_at, id

-- name: add_secret
-- A secret, unless it is known; the count orders them.
INSERT INTO secrets (id, secret, added_at) SELECT ?, ?, count(*) FROM secrets WHERE true
ON CONFLICT (id) DO NOTHING

-- name: any_tenant
-- Whether anything was ever written, by any tenant.
SELECT tenant FROM heads LIMIT 1

-- name: drop_secrets
-- Make room for the secrets of a restored store; only where nothing is keyed yet.
DELETE FROM secrets

-- name: list
-- The start of a list; conditions, order and limit follow, each from this file.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memories WHERE tenant = ?

-- name: list_at
-- Only what holds at a point of both times: the moment seven times, the moment of belief twice.
AND status IN ('active', 'superseded', 'expired') AND asserted_order > 0
AND (expires_at IS NULL OR expires_at > ?)
AND CASE WHEN key IS NULL THEN
    valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)
    AND (
        retracted_during = '[]'
        OR NOT EXISTS (
            SELECT 1 FROM json_each(memories.retracted_during) AS taken
            WHERE json_extract(taken.value, '$[0]') <= ?
                AND coalesce(json_extract(taken.value, '$[1]'), '~') > ?
        )
    )
ELSE
    EXISTS (
        SELECT 1 FROM memory_segments AS s
        WHERE s.tenant = memories.tenant AND s.memory_id = memories.id
            AND s.valid_from <= ? AND (s.valid_to IS NULL OR s.valid_to > ?)
            AND s.system_from <= ? AND (s.system_to IS NULL OR s.system_to > ?)
    )
END

-- name: list_present
-- Only what holds at a moment not before the newest unit, as believed by now: the moment seven times.
-- What is superseded or expired by then does not, so that the index of what is active serves.
AND status = 'active' AND asserted_order > 0
AND (expires_at IS NULL OR expires_at > ?)
AND CASE WHEN key IS NULL THEN
    valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)
    AND (
        retracted_during = '[]'
        OR NOT EXISTS (
            SELECT 1 FROM json_each(memories.retracted_during) AS taken
            WHERE json_extract(taken.value, '$[0]') <= ?
                AND coalesce(json_extract(taken.value, '$[1]'), '~') > ?
        )
    )
ELSE
    EXISTS (
        SELECT 1 FROM memory_segments AS s
        WHERE s.tenant = memories.tenant AND s.memory_id = memories.id
            AND s.valid_from <= ? AND (s.valid_to IS NULL OR s.valid_to > ?)
            AND s.system_to IS NULL
    )
END

-- name: list_known
-- Only versions that were there by a moment; those replaced since come from the history.
AND created_at <= ? AND system_from <= ?

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
FROM memories INDEXED BY sqlite_autoindex_memories_1
WHERE tenant = ? AND id IN (SELECT value FROM json_each(?)) AND key IS NOT NULL

-- name: count_few
-- How many there are of some memories that have a key; conditions follow.
SELECT count(*) FROM memories INDEXED BY sqlite_autoindex_memories_1
WHERE tenant = ? AND id IN (SELECT value FROM json_each(?)) AND key IS NOT NULL

-- name: few_valid
-- Whose segments, of those still believed, cover a moment, by a JSON list of [class, no start before].
SELECT s.created_at AS its_creation, s.memory_id AS its_id
FROM json_each(?) AS wanted CROSS JOIN memory_segments AS s
WHERE s.tenant = ? AND s.system_to IS NULL AND s.class IS json_extract(wanted.value, '$[0]')
    AND s.valid_from >= json_extract(wanted.value, '$[1]') AND s.valid_from <= ?
    AND (s.valid_to IS NULL OR s.valid_to > ?) AND s.system_from <= ?

-- name: few_believed
-- Whose segments, of those no longer believed, cover a moment of each time; classes of system time.
SELECT s.created_at AS its_creation, s.memory_id AS its_id
FROM json_each(?) AS wanted CROSS JOIN memory_segments AS s
WHERE s.tenant = ? AND s.system_to IS NOT NULL AND s.class IS json_extract(wanted.value, '$[0]')
    AND s.system_from >= json_extract(wanted.value, '$[1]') AND s.system_from <= ? AND s.system_to > ?
    AND s.valid_from <= ? AND (s.valid_to IS NULL OR s.valid_to > ?)

-- name: few_valid_on_key
-- The same on one key, by a JSON list of [class, no start before, scope, kind].
SELECT s.created_at AS its_creation, s.memory_id AS its_id
FROM json_each(?) AS wanted CROSS JOIN memory_segments AS s
WHERE s.tenant = ? AND s.key = ? AND s.system_to IS NULL
    AND s.scope = json_extract(wanted.value, '$[2]') AND s.kind = json_extract(wanted.value, '$[3]')
    AND s.class IS json_extract(wanted.value, '$[0]')
    AND s.valid_from >= json_extract(wanted.value, '$[1]') AND s.valid_from <= ?
    AND (s.valid_to IS NULL OR s.valid_to > ?) AND s.system_from <= ?

-- name: few_believed_on_key
-- The same on one key, by a JSON list of [class, no start before, scope, kind].
SELECT s.created_at AS its_creation, s.memory_id AS its_id
FROM json_each(?) AS wanted CROSS JOIN memory_segments AS s
WHERE s.tenant = ? AND s.key = ? AND s.system_to IS NOT NULL
    AND s.scope = json_extract(wanted.value, '$[2]') AND s.kind = json_extract(wanted.value, '$[3]')
    AND s.class IS json_extract(wanted.value, '$[0]')
    AND s.system_from >= json_extract(wanted.value, '$[1]') AND s.system_from <= ? AND s.system_to > ?
    AND s.valid_from <= ? AND (s.valid_to IS NULL OR s.valid_to > ?)

-- name: slots_on_key
-- The first scopes and kinds in which a key is or was, a few steps into an index for each.
WITH RECURSIVE slots (slot) AS (
    SELECT json_array('', '')
    UNION ALL
    SELECT (
        SELECT json_array(next.scope, next.kind) FROM (
            SELECT * FROM (
                SELECT s.scope, s.kind FROM memory_segments AS s
                WHERE s.tenant = ? AND s.key = ? AND s.system_to IS NULL
                    AND (s.scope, s.kind) > (json_extract(slot, '$[0]'), json_extract(slot, '$[1]'))
                ORDER BY s.scope, s.kind LIMIT 1
            )
            UNION ALL
            SELECT * FROM (
                SELECT s.scope, s.kind FROM memory_segments AS s
                WHERE s.tenant = ? AND s.key = ? AND s.system_to IS NOT NULL
                    AND (s.scope, s.kind) > (json_extract(slot, '$[0]'), json_extract(slot, '$[1]'))
                ORDER BY s.scope, s.kind LIMIT 1
            )
        ) AS next
        ORDER BY next.scope, next.kind LIMIT 1
    )
    FROM slots WHERE slot IS NOT NULL
    LIMIT ?
)
SELECT json_extract(slot, '$[0]'), json_extract(slot, '$[1]') FROM slots
WHERE slot IS NOT NULL AND slot <> json_array('', '')

-- name: few_changed
-- Which memories were there at a moment of belief and changed since.
SELECT m.created_at AS its_creation, m.id AS its_id
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ? AND m.system_from > m.created_at
    AND m.changed_class IS json_extract(wanted.value, '$[0]')
    AND m.created_at >= json_extract(wanted.value, '$[1]') AND m.created_at <= ? AND m.system_from > ?

-- name: few_unkeyed
-- Which of those have no key, or had none once.
SELECT m.created_at AS its_creation, m.id AS its_id
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ? AND m.system_from > m.created_at AND (m.key IS NULL OR m.was_unkeyed)
    AND m.changed_class IS json_extract(wanted.value, '$[0]')
    AND m.created_at >= json_extract(wanted.value, '$[1]') AND m.created_at <= ? AND m.system_from > ?

-- name: list_replaced
-- The start of a list of some memories in the versions that a moment of belief had and that were
-- replaced since, by a JSON list of their ids; what was quarantined or erased since is left out.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq, retracted_during, asserted_order, displaces, many, system_from
FROM memory_history AS memories
WHERE tenant = ? AND id IN (SELECT value FROM json_each(?)) AND system_from <= ? AND system_to > ?
    AND NOT EXISTS (
        SELECT 1 FROM memories AS m
        WHERE m.tenant = memories.tenant AND m.id = memories.id AND m.status IN ('quarantined', 'erased')
    )

-- name: count_replaced
-- How many of some memories had versions that were replaced since; conditions follow.
SELECT count(*) FROM memory_history AS memories
WHERE tenant = ? AND id IN (SELECT value FROM json_each(?)) AND system_from <= ? AND system_to > ?
    AND NOT EXISTS (
        SELECT 1 FROM memories AS m
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
    SELECT tenant AS its_tenant, id AS its_id, created_at AS its_creation FROM memories
    WHERE tenant = ? AND created_at <= ? AND system_from > ? AND status NOT IN ('quarantined', 'erased')
) CROSS JOIN memory_history AS memories
WHERE memories.tenant = its_tenant AND memories.id = its_id
    AND memories.system_from <= ? AND memories.system_to > ?

-- name: count
-- How many there are; conditions follow.
SELECT count(*) FROM memories WHERE tenant = ?

-- name: count_past
-- How many versions there were that were replaced since; conditions follow.
SELECT count(*)
FROM (
    SELECT tenant AS its_tenant, id AS its_id FROM memories
    WHERE tenant = ? AND created_at <= ? AND system_from > ? AND status NOT IN ('quarantined', 'erased')
) CROSS JOIN memory_history AS memories
WHERE memories.tenant = its_tenant AND memories.id = its_id
    AND memories.system_from <= ? AND memories.system_to > ?

-- name: past_after_created_at_asc
-- Past the last row seen, by the creation of the memory.
AND (its_creation, its_id) > (?, ?)

-- name: past_by_created_at_asc
-- In order of the memory's creation; ids break ties.
ORDER BY its_creation, its_id LIMIT ? OFFSET ?

-- name: past_after_created_at_desc
-- Past the last row seen, by the creation of the memory.
AND (its_creation, its_id) < (?, ?)

-- name: past_by_created_at_desc
-- In order of the memory's creation; ids break ties.
ORDER BY its_creation DESC, its_id DESC LIMIT ? OFFSET ?

-- name: members
-- The ids of the memories that have a key, or had it once.
SELECT id FROM memories WHERE tenant = ? AND key = ? AND scope = ? AND kind = ?
UNION
SELECT id FROM memory_history WHERE tenant = ? AND key = ? AND scope = ? AND kind = ?

-- name: strays
-- Ids that history or segments name and no memory has.
SELECT h.id FROM memory_history AS h
WHERE h.tenant = ? AND NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.tenant = h.tenant AND m.id = h.id)
UNION
SELECT s.memory_id FROM memory_segments AS s
WHERE s.tenant = ?
    AND NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.tenant = s.tenant AND m.id = s.memory_id)

-- name: versions
-- Every version of memories, by a JSON list of ids, with the ledger row that made it.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from,
    NULL AS system_to, a.action, a.actor, a.payload
FROM json_each(?) AS wanted CROSS JOIN memories AS m
CROSS JOIN audit_log AS a
WHERE m.tenant = ? AND m.id = wanted.value AND a.tenant = m.tenant AND a.seq = m.seq
UNION ALL
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq, m.retracted_during,
    m.asserted_order, m.displaces, m.many, m.system_from,
    m.system_to, a.action, a.actor, a.payload
FROM json_each(?) AS wanted CROSS JOIN memory_history AS m
CROSS JOIN audit_log AS a
WHERE m.tenant = ? AND m.id = wanted.value AND a.tenant = m.tenant AND a.seq = m.seq

-- name: segments
-- What was ever effective of memories, by a JSON list of ids.
SELECT
    s.kind, s.scope, s.key, s.lane, s.memory_id, s.valid_from, s.valid_to, s.asserted_from,
    s.asserted_order, s.system_from, s.system_to
FROM json_each(?) AS wanted CROSS JOIN memory_segments AS s
WHERE s.tenant = ? AND s.memory_id = wanted.value
ORDER BY s.memory_id, s.valid_from, s.system_from

-- name: row_time
-- When a ledger row was written.
SELECT time FROM audit_log WHERE tenant = ? AND seq = ?

-- name: list_where_actor
-- Exactly this actor; NULL matches NULL.
AND actor IS ?

-- name: list_where_code
-- Exactly this code; NULL matches NULL.
AND code IS ?

-- name: list_where_confidence
-- Exactly this confidence; NULL matches NULL.
AND confidence IS ?

-- name: list_where_content_hash
-- Exactly this content_hash; NULL matches NULL.
AND content_hash IS ?

-- name: list_where_created_at
-- Exactly this created_at; NULL matches NULL.
AND created_at IS ?

-- name: list_where_depends_on
-- Exactly this depends_on; NULL matches NULL.
AND depends_on IS ?

-- name: list_where_expires_at
-- Exactly this expires_at; NULL matches NULL.
AND expires_at IS ?

-- name: list_where_id
-- Exactly this id; NULL matches NULL.
AND id IS ?

-- name: list_where_key
-- Exactly this key; NULL matches NULL.
AND key IS ?

-- name: list_where_kind
-- Exactly this kind; NULL matches NULL.
AND kind IS ?

-- name: list_where_origin
-- Exactly this origin; NULL matches NULL.
AND origin IS ?

-- name: list_where_retracted_at
-- Exactly this retracted_at; NULL matches NULL.
AND retracted_at IS ?

-- name: list_where_retraction_reason
-- Exactly this retraction_reason; NULL matches NULL.
AND retraction_reason IS ?

-- name: list_where_scope
-- Exactly this scope; NULL matches NULL.
AND scope IS ?

-- name: list_where_sensitivity
-- Exactly this sensitivity; NULL matches NULL.
AND sensitivity IS ?

-- name: list_where_session_id
-- Exactly this session_id; NULL matches NULL.
AND session_id IS ?

-- name: list_where_source
-- Exactly this source; NULL matches NULL.
AND source IS ?

-- name: list_where_status
-- Exactly this status; NULL matches NULL.
AND status IS ?

-- name: list_where_thread_id
-- Exactly this thread_id; NULL matches NULL.
AND thread_id IS ?

-- name: list_where_updated_at
-- Exactly this updated_at; NULL matches NULL.
AND updated_at IS ?

-- name: list_where_valid_from
-- Exactly this valid_from; NULL matches NULL.
AND valid_from IS ?

-- name: list_where_valid_to
-- Exactly this valid_to; NULL matches NULL.
AND valid_to IS ?

-- name: list_where_version
-- Exactly this version; NULL matches NULL.
AND version IS ?

-- name: list_where_content
-- Exactly this scalar at a JSON path, of one of two JSON types.
AND json_extract(content, ?) IS ? AND json_type(content, ?) IN (?, ?)

-- name: list_after_created_at_asc
-- Past the last row seen, by created_at.
AND (created_at, id) > (?, ?)

-- name: list_by_created_at_asc
-- In order of created_at; ids break ties.
ORDER BY created_at, id LIMIT ? OFFSET ?

-- name: list_after_created_at_desc
-- Past the last row seen, by created_at.
AND (created_at, id) < (?, ?)

-- name: list_by_created_at_desc
-- In order of created_at; ids break ties.
ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?

-- name: list_after_updated_at_asc
-- Past the last row seen, by updated_at.
AND (updated_at, id) > (?, ?)

-- name: list_by_updated_at_asc
-- In order of updated_at; ids break ties.
ORDER BY updated_at, id LIMIT ? OFFSET ?

-- name: list_after_updated_at_desc
-- Past the last row seen, by updated_at.
AND (updated_at, id) < (?, ?)

-- name: list_by_updated_at_desc
-- In order of updated_at; ids break ties.
ORDER BY updated_at DESC, id DESC LIMIT ? OFFSET ?

-- name: list_after_confidence_asc
-- Past the last row seen, by confidence.
AND (confidence, id) > (?, ?)

-- name: list_by_confidence_asc
-- In order of confidence; ids break ties.
ORDER BY confidence, id LIMIT ? OFFSET ?

-- name: list_after_confidence_desc
-- Past the last row seen, by confidence.
AND (confidence, id) < (?, ?)

-- name: list_by_confidence_desc
-- In order of confidence; ids break ties.
ORDER BY confidence DESC, id DESC LIMIT ? OFFSET ?

-- name: list_after_status_asc
-- Past the last row seen, by status.
AND (status, id) > (?, ?)

-- name: list_by_status_asc
-- In order of status; ids break ties.
ORDER BY status, id LIMIT ? OFFSET ?

-- name: list_after_status_desc
-- Past the last row seen, by status.
AND (status, id) < (?, ?)

-- name: list_by_status_desc
-- In order of status; ids break ties.
ORDER BY status DESC, id DESC LIMIT ? OFFSET ?

-- name: list_after_session_id_asc
-- Past the last row seen, by session_id.
AND (session_id, id) > (?, ?)

-- name: list_by_session_id_asc
-- In order of session_id; ids break ties.
ORDER BY session_id, id LIMIT ? OFFSET ?

-- name: list_after_session_id_desc
-- Past the last row seen, by session_id.
AND (session_id, id) < (?, ?)

-- name: list_by_session_id_desc
-- In order of session_id; ids break ties.
ORDER BY session_id DESC, id DESC LIMIT ? OFFSET ?
