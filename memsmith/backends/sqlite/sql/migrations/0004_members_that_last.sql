-- Over what began before it a member that never ends lies for good: what is proposed about the past need
-- not look beyond.

CREATE INDEX memories_lasting ON memories (tenant, key, scope, kind, valid_from)
    WHERE valid_to IS NULL AND retracted_during = '[]' AND asserted_order > 0
        AND status IN ('active', 'superseded') AND NOT many AND key IS NOT NULL;

-- Whoever had a key once is found by its versions, whether it ever held or not.

CREATE INDEX history_key ON memory_history (tenant, key, scope, kind, id) WHERE key IS NOT NULL;
