-- What a job waits for besides other jobs and room (a time, a release, a place among those of its key), and
-- the sets that jobs belong to.

ALTER TABLE jobs
    -- When the job itself asks to be looked at: end of a delay, deadline, end of the time an attempt may take.
    ADD COLUMN alarm_at bigint,
    -- JSON of what few jobs have: the end of a delay, a hold, workers on which it failed, outputs.
    ADD COLUMN extra text COLLATE "C",
    ADD COLUMN concurrency_key text COLLATE "C",
    ADD COLUMN unique_key text COLLATE "C",
    -- The pipeline or array that the job belongs to, and its place there.
    ADD COLUMN set_id uuid,
    ADD COLUMN step text COLLATE "C",
    ADD COLUMN set_index integer;

DROP INDEX jobs_waiting;
CREATE INDEX jobs_waiting ON jobs (status, queue) WHERE status IN ('blocked', 'preempted', 'delayed', 'held');
CREATE INDEX jobs_alarm ON jobs (alarm_at) WHERE alarm_at IS NOT NULL;
CREATE INDEX jobs_by_concurrency ON jobs (concurrency_key)
    WHERE concurrency_key IS NOT NULL AND status IN ('reserved', 'running', 'preempting');
CREATE INDEX jobs_by_unique ON jobs (unique_key) WHERE unique_key IS NOT NULL AND done_at IS NULL;
CREATE INDEX jobs_by_set ON jobs (set_id, seq) WHERE set_id IS NOT NULL;
CREATE INDEX jobs_of_step ON jobs (set_id, step, status) WHERE set_id IS NOT NULL;

-- The place of a rule in the list of rules; 0 is "all must succeed".
ALTER TABLE edges ADD COLUMN rule smallint NOT NULL DEFAULT 0;

-- JSON; how jobs fared on the worker lately.
ALTER TABLE workers ADD COLUMN health text;

-- Queues that an operator has set something of, as JSON.
CREATE TABLE queues (
    name text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL
);

-- Pipelines and arrays. Their state is that of their jobs.
CREATE TABLE sets (
    seq bigserial PRIMARY KEY,
    id uuid NOT NULL,
    kind text NOT NULL,
    name text,
    created_at bigint NOT NULL,
    size bigint NOT NULL,
    max_parallel bigint,
    idempotency_key text COLLATE "C",
    -- JSON; the steps of a pipeline.
    outline text NOT NULL
);
CREATE UNIQUE INDEX sets_by_id ON sets (id);
CREATE UNIQUE INDEX sets_by_key ON sets (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX sets_by_age ON sets (created_at);
