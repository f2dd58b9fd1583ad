-- Gangs are found by their id, those that wait by a small index, and lists of them by their first task.
ALTER TABLE jobs ADD COLUMN gang_index integer;
ALTER TABLE workers ADD COLUMN ports text;
CREATE INDEX jobs_gang ON jobs (gang_id) WHERE gang_id IS NOT NULL;
CREATE INDEX jobs_gang_waiting ON jobs (gang_id, seq) WHERE status = 'blocked' AND waiting_on = 0 AND gang_id IS NOT NULL;
CREATE INDEX jobs_gang_first ON jobs (seq) WHERE gang_index = 0;
CREATE INDEX jobs_reserved ON jobs (reserved_at) WHERE status = 'reserved';
-- What all schedulers on this store share and nobody else may know.
CREATE TABLE secrets (
    name text PRIMARY KEY,
    value text NOT NULL
);
