-- How a transaction begins and when it counts, by name; SQLite has neither.

-- name: enter
-- Take the tenant's turn for as long as the transaction lasts, and read its head and how far the log of
-- the server is written. In a function each statement has a snapshot of its own, so the head is the one
-- that whoever held the lock left. What is committed under the lock is flushed when it is free again.
SELECT its_count, its_hash, its_time, its_position FROM memsmith.enter($1, $2)

-- name: flush
-- Wait until what lies before a position of the log is on disk, or all of it where none is given.
SELECT memsmith.flush($1::text::pg_lsn)

-- name: position
-- How far the log is written: what can be read lies before it.
SELECT pg_current_wal_insert_lsn()::text

-- name: keep_others_out
-- Let no tenant write its first row until the transaction ends.
LOCK TABLE memsmith.heads IN SHARE ROW EXCLUSIVE MODE
