-- The schema that the migrations lead to. Nothing is created from this file: a test compares it with them.
-- Ids of jobs are random, so an index on them is written at random places. Only `jobs` has one: every
-- other table refers to a job by its number (`seq`), which grows, and so its pages stay together.

-- The last number given out. Numbers are never used twice, also when the newest rows were removed.
CREATE TABLE numbers (
    kind TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO numbers (kind, last) VALUES ('job', 0), ('event', 0), ('set', 0);

-- What jobs of one shape require of a worker, as JSON.
CREATE TABLE shapes (
    id INTEGER PRIMARY KEY,
    requirement TEXT NOT NULL
) STRICT;

-- Times are microseconds since the epoch, UTC.
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    -- pending, delayed, held, blocked, reserved, running, preempting, preempted, done, failed or cancelled
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    shape INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    preemption_epoch INTEGER NOT NULL,
    reservation_epoch INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    started_at INTEGER,
    last_heartbeat INTEGER,
    -- Set while the job runs.
    sign_at INTEGER,
    lease_ends_at INTEGER,
    -- Set while the job is reserved.
    reserved_at INTEGER,
    -- Set while the job stops, or has stopped and waits for the others of its gang.
    drain_started_at INTEGER,
    -- Set once the job is done, failed or cancelled.
    done_at INTEGER,
    waiting_on INTEGER,
    closed_lease INTEGER,
    closed_by TEXT,
    exit_code INTEGER,
    exit_signal INTEGER,
    checkpoint_bytes INTEGER,
    worker_id TEXT,
    queue TEXT,
    name TEXT,
    idempotency_key TEXT,
    gang_id TEXT,
    reason TEXT,
    -- JSON; changes only when a waiting job is edited.
    spec TEXT NOT NULL,
    -- When the job itself asks to be looked at: end of a delay, deadline, end of the time an attempt may take.
    alarm_at INTEGER,
    -- JSON of what few jobs have: the end of a delay, a hold, workers on which it failed, outputs.
    extra TEXT,
    concurrency_key TEXT,
    unique_key TEXT,
    -- The pipeline or array that the job belongs to, and its place there.
    set_id BLOB,
    step TEXT,
    set_index INTEGER,
    gang_index integer,
    -- Place in the line by the policy in force: smaller goes first, then the smaller number.
    rank INTEGER NOT NULL DEFAULT 0,
    -- Microseconds for which it ran, and for which it waited for its turn before the present round.
    served INTEGER NOT NULL DEFAULT 0,
    waited INTEGER NOT NULL DEFAULT 0,
    -- It has waited for very long and goes first.
    pinned INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX jobs_by_id ON jobs (id);
CREATE UNIQUE INDEX jobs_by_key ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
-- Most of the indexes below hold only a part of the unfinished jobs. Their conditions name one state after another: a list
-- of three or more would be built as a table for each index and each row that is written.
CREATE INDEX jobs_pending ON jobs (shape, rank, seq, gang_id, queue) WHERE status = 'pending';
CREATE INDEX jobs_pinned ON jobs (seq) WHERE pinned = 1;
CREATE INDEX jobs_waiting ON jobs (status, queue)
    WHERE status = 'blocked' OR status = 'preempted' OR status = 'delayed' OR status = 'held'
        OR status = 'finished';
CREATE INDEX jobs_alarm ON jobs (alarm_at) WHERE alarm_at IS NOT NULL;
CREATE INDEX jobs_by_concurrency ON jobs (concurrency_key)
    WHERE concurrency_key IS NOT NULL AND (status = 'running' OR status = 'reserved' OR status = 'preempting');
CREATE INDEX jobs_by_unique ON jobs (unique_key) WHERE unique_key IS NOT NULL AND done_at IS NULL;
CREATE INDEX jobs_by_set ON jobs (set_id, seq) WHERE set_id IS NOT NULL;
CREATE INDEX jobs_of_step ON jobs (set_id, step, status) WHERE set_id IS NOT NULL;
CREATE INDEX jobs_held ON jobs (worker_id, shape, status)
    WHERE status = 'running' OR status = 'reserved' OR status = 'preempting';
CREATE INDEX jobs_sign ON jobs (sign_at) WHERE sign_at IS NOT NULL;
CREATE INDEX jobs_drain ON jobs (worker_id, drain_started_at) WHERE drain_started_at IS NOT NULL;
CREATE INDEX jobs_done ON jobs (done_at) WHERE done_at IS NOT NULL;
CREATE INDEX jobs_unfinished ON jobs (seq) WHERE done_at IS NULL;
CREATE INDEX jobs_unsuccessful ON jobs (seq) WHERE done_at IS NOT NULL AND reason IS NOT NULL;
CREATE INDEX jobs_gang ON jobs (gang_id) WHERE gang_id IS NOT NULL;
CREATE INDEX jobs_gang_waiting ON jobs (gang_id, seq) WHERE waiting_on = 0 AND gang_id IS NOT NULL;
CREATE INDEX jobs_gang_first ON jobs (seq) WHERE gang_index = 0;
CREATE INDEX jobs_reserved ON jobs (worker_id, reserved_at) WHERE reserved_at IS NOT NULL;
CREATE INDEX jobs_held_by_queue ON jobs (queue, shape)
    WHERE queue IS NOT NULL AND (status = 'running' OR status = 'reserved' OR status = 'preempting');

-- `child` waits for `parent`; both are numbers of jobs.
CREATE TABLE edges (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    -- The place of a rule in the list of rules; 0 is "all must succeed".
    rule INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX edges_by_child ON edges (child);

CREATE TABLE checkpoints (
    job INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    exec_addr TEXT NOT NULL,
    resources TEXT NOT NULL,
    tags TEXT NOT NULL,
    slots INTEGER,
    hostname TEXT,
    version TEXT,
    status TEXT NOT NULL,
    last_heartbeat INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    -- JSON; how jobs fared on the worker lately.
    health TEXT,
    -- JSON of the ports that it keeps for gangs.
    ports text,
    -- JSON of the room that it keeps for work which goes first and does not fit yet.
    kept text
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    job INTEGER,
    worker_id TEXT,
    kind TEXT NOT NULL,
    -- Who caused it, where the event itself does not say so.
    caused_by TEXT
) STRICT;
CREATE INDEX events_by_job ON events (job) WHERE job IS NOT NULL;

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

-- Receivers of events, as JSON with how far each has come, and the events that could not be delivered.
CREATE TABLE webhooks (
    id BLOB PRIMARY KEY,
    facts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE dead_letters (
    webhook BLOB NOT NULL,
    event INTEGER NOT NULL,
    -- Somebody asked for one more attempt.
    retry INTEGER NOT NULL,
    letter TEXT NOT NULL,
    PRIMARY KEY (webhook, event)
) STRICT, WITHOUT ROWID;

-- What all schedulers on this store share and nobody else may know.
CREATE TABLE secrets (
    name text PRIMARY KEY,
    value text NOT NULL
);

-- How long the last two runs took, by user, queue and name (JSON), in microseconds; forgotten when not written for long.
CREATE TABLE run_times (
    series TEXT PRIMARY KEY,
    last_us INTEGER NOT NULL,
    before_us INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_times_by_age ON run_times (at);

-- What was used, summed up by hour (UTC, since 1970), user and queue (empty for none). Memory is in MiB times seconds.
CREATE TABLE usage_hours (
    hour INTEGER NOT NULL,
    account TEXT NOT NULL,
    queue TEXT NOT NULL,
    private INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    jobs_failed INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    cpu_ms INTEGER NOT NULL,
    cpu_requested_ms INTEGER NOT NULL,
    cpu_compared_ms INTEGER NOT NULL,
    cpu_compared_requested_ms INTEGER NOT NULL,
    memory_compared INTEGER NOT NULL,
    memory_compared_requested INTEGER NOT NULL,
    gpu_ms INTEGER NOT NULL,
    read_bytes INTEGER NOT NULL,
    written_bytes INTEGER NOT NULL,
    peak_memory_bytes INTEGER NOT NULL,
    PRIMARY KEY (hour, account, queue, private)
) STRICT, WITHOUT ROWID;

-- Checkpoints that are too large for one transaction, in parts under one name, with the number of their job.
CREATE TABLE checkpoint_parts (
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    job INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (name, number)
) STRICT;
CREATE INDEX checkpoint_parts_of_job ON checkpoint_parts (job);

-- The schedulers on this database, by the name of their data directory.
CREATE TABLE schedulers (
    id TEXT NOT NULL PRIMARY KEY,
    url TEXT NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT;

-- Small facts by kind and key: accounts, credentials (by the digest of what their holders show), sealed secrets.
CREATE TABLE records (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

-- Who did what to accounts, credentials and settings.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    facts TEXT NOT NULL
) STRICT;

-- What attempts of jobs left: files in the blob store, or why one could not be kept.
CREATE TABLE artifacts (
    job INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    blob TEXT,
    size INTEGER NOT NULL,
    sha256 TEXT,
    content_type TEXT,
    missing TEXT,
    queue TEXT NOT NULL,
    owner TEXT NOT NULL,
    removed INTEGER,
    PRIMARY KEY (job, lease, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifacts_by_blob ON artifacts (blob) WHERE blob IS NOT NULL;
CREATE INDEX artifacts_by_queue ON artifacts (queue, size);
CREATE INDEX artifacts_by_owner ON artifacts (owner, size);
CREATE INDEX artifacts_by_age ON artifacts (at) WHERE blob IS NOT NULL;

-- Output of ended attempts that has moved out of the files of schedulers: in the row itself, or in the blob store.
CREATE TABLE outputs (
    job INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    stdout_written INTEGER NOT NULL,
    stderr_written INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    grown_at INTEGER NOT NULL,
    whole INTEGER NOT NULL,
    facts TEXT NOT NULL,
    blob TEXT,
    content BLOB,
    PRIMARY KEY (job, lease)
) STRICT;
CREATE INDEX outputs_by_blob ON outputs (blob) WHERE blob IS NOT NULL;
CREATE INDEX outputs_by_age ON outputs (grown_at, kept) WHERE kept > 0;
