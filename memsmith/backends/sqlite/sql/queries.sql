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
    version, seq
FROM memories WHERE tenant = ? AND id = ?

-- name: memories_by_id
-- Memories by a JSON list of ids.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ? AND m.id = wanted.value

-- name: memories_by_value
-- Live memories by a JSON list of value digests.
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ? AND m.value_digest = wanted.value AND m.status IN ('active', 'pending_confirmation')

-- name: memories_by_slot
-- Live memories by a JSON list of [kind, scope, key].
SELECT
    m.tenant, m.id, m.kind, m.scope, m.key, m.content, m.content_hash, m.value_digest, m.session_id,
    m.thread_id, m.source, m.confidence, m.origin, m.sensitivity, m.status, m.held_status, m.code,
    m.depends_on, m.metadata, m.actor, m.created_at, m.updated_at, m.valid_from, m.valid_to,
    m.expires_at, m.retracted_at, m.retraction_reason, m.version, m.seq
FROM json_each(?) AS wanted CROSS JOIN memories AS m
WHERE m.tenant = ?
    AND m.key = json_extract(wanted.value, '$[2]')
    AND m.scope = json_extract(wanted.value, '$[1]')
    AND m.kind = json_extract(wanted.value, '$[0]')
    AND m.status IN ('active', 'pending_confirmation')

-- name: memories_due
-- Live memories whose time was over at a moment, the longest overdue first.
SELECT
    tenant, id, kind, scope, key, content, content_hash, value_digest, session_id, thread_id,
    source, confidence, origin, sensitivity, status, held_status, code, depends_on, metadata, actor,
    created_at, updated_at, valid_from, valid_to, expires_at, retracted_at, retraction_reason,
    version, seq
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
    version, seq
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_memory
-- A changed memory; what is fixed when proposed is not among the columns.
UPDATE memories SET
    key = :key, content = :content, content_hash = :content_hash, value_digest = :value_digest,
    source = :source, confidence = :confidence, origin = :origin, sensitivity = :sensitivity, status
    = :status, held_status = :held_status, code = :code, metadata = :metadata, updated_at =
    :updated_at, valid_from = :valid_from, valid_to = :valid_to, expires_at = :expires_at,
    retracted_at = :retracted_at, retraction_reason = :retraction_reason, version = :version, seq =
    :seq
WHERE tenant = :tenant AND id = :id

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
    version, seq
FROM memories WHERE tenant = ?

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
