-- What a job waits for besides other jobs and room (a time, a release, a place among those of its key), and
-- the sets that jobs belong to.

-- When the job itself asks to be looked at: end of a delay, deadline, end of the time an attempt may take.
ALTER TABLE jobs ADD COLUMN alarm_at INTEGER;
-- JSON of what few jobs have: the end of a delay, a hold, workers on which it failed, outputs.
ALTER TABLE jobs ADD COLUMN extra TEXT;
ALTER TABLE jobs ADD COLUMN concurrency_key TEXT;
ALTER TABLE jobs ADD COLUMN unique_key TEXT;
-- The pipeline or array that the job belongs to, and its place there.
ALTER TABLE jobs ADD COLUMN set_id BLOB;
ALTER TABLE jobs ADD COLUMN step TEXT;
ALTER TABLE jobs ADD COLUMN set_index INTEGER;

DROP INDEX jobs_waiting;
CREATE INDEX jobs_waiting ON jobs (status, queue) WHERE status IN ('blocked', 'preempted', 'delayed', 'held');
CREATE INDEX jobs_alarm ON jobs (alarm_at) WHERE alarm_at IS NOT NULL;
CREATE INDEX jobs_by_concurrency ON jobs (concurrency_key)
    WHERE concurrency_key IS NOT NULL AND status IN ('reserved', 'running', 'preempting');
CREATE INDEX jobs_by_unique ON jobs (unique_key) WHERE unique_key IS NOT NULL AND done_at IS NULL;
CREATE INDEX jobs_by_set ON jobs (set_id, seq) WHERE set_id IS NOT NULL;
CREATE INDEX jobs_of_step ON jobs (set_id, step, status) WHERE set_id IS NOT NULL;

-- The place of a rule in the list of rules; 0 is "all must succeed".
ALTER TABLE edges ADD COLUMN rule INTEGER NOT NULL DEFAULT 0;

-- JSON; how jobs fared on the worker lately.
ALTER TABLE workers ADD COLUMN health TEXT;

-- Queues that an operator has set something of, as JSON.
CREATE TABLE queues (
    name TEXT PRIMARY KEY,
    settings TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Pipelines and arrays. Their state is that of their jobs.
CREATE TABLE sets (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    kind TEXT NOT NULL,
    name TEXT,
    created_at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    max_parallel INTEGER,
    idempotency_key TEXT,
    -- JSON; the steps of a pipeline.
    outline TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX sets_by_id ON sets (id);
CREATE UNIQUE INDEX sets_by_key ON sets (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX sets_by_age ON sets (created_at);
INSERT INTO numbers (kind, last) VALUES ('set', 0);
