-- What lies before the newest unit can't be added to by hand, and the head that says where that is only
-- moves on.

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

CREATE TRIGGER audit_log_goes_on BEFORE INSERT ON audit_log
WHEN NEW.seq <= (SELECT h.count FROM heads AS h WHERE h.tenant = NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;

CREATE TRIGGER memory_history_goes_on BEFORE INSERT ON memory_history
WHEN NEW.system_to < (SELECT h.time FROM heads AS h WHERE h.tenant = NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'memory_history is append-only');
END;

CREATE TRIGGER memory_segments_go_on BEFORE INSERT ON memory_segments
WHEN NEW.system_from < (SELECT h.time FROM heads AS h WHERE h.tenant = NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'memory_segments are append-only');
END;

CREATE TRIGGER memory_segments_close_now BEFORE UPDATE ON memory_segments
WHEN OLD.system_to IS NULL AND NEW.system_to < (SELECT h.time FROM heads AS h WHERE h.tenant = NEW.tenant)
BEGIN
    SELECT RAISE(ABORT, 'memory_segments are closed now, not in the past');
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

CREATE TRIGGER memories_keep_their_lane BEFORE UPDATE OF many ON memories
WHEN NEW.many <> OLD.many AND NEW.key = OLD.key
BEGIN
    SELECT RAISE(ABORT, 'memories keep the cardinality they were told under');
END;
