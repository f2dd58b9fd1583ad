-- A task that ended well before the others of its gang is `finished`: counted like what waits, without room.
DROP INDEX jobs_waiting;
CREATE INDEX jobs_waiting ON jobs (status, queue)
    WHERE status = 'blocked' OR status = 'preempted' OR status = 'delayed' OR status = 'held'
        OR status = 'finished';
