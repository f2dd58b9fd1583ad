-- A task that ended well before the others of its gang is `finished`: counted like what waits, without room.
DROP INDEX jobs_waiting;
CREATE INDEX jobs_waiting ON jobs (status, queue) WHERE status IN ('blocked', 'preempted', 'delayed', 'held', 'finished');
