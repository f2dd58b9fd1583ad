-- The schema that the migrations lead to. Nothing is created from this file: a test compares it with them.
-- Ids of jobs are random, so an index on them is written at random places, and an index of `jobs` is written
-- anew with each new version of a row. Therefore ids have a table of their own, which is written once a job;
-- every other table refers to a job by its number (`seq`), which grows, and so its pages stay together.
CREATE TABLE ids (
    id uuid PRIMARY KEY,
    seq bigint NOT NULL
);

-- What jobs of one shape require of a worker, as JSON.
CREATE TABLE shapes (
    id bigint PRIMARY KEY,
    requirement text NOT NULL
);

-- Times are microseconds since the epoch, UTC. Rows are updated a few times each and then rest, so the
-- table is vacuumed early: old versions at the head of a queue would have to be stepped over.
CREATE TABLE jobs (
    seq bigserial PRIMARY KEY,
    id uuid NOT NULL,
    shape bigint NOT NULL,
    lease bigint NOT NULL,
    created_at bigint NOT NULL,
    ready_at bigint NOT NULL,
    started_at bigint,
    last_heartbeat bigint,
    -- Set while the job runs.
    sign_at bigint,
    lease_ends_at bigint,
    reserved_at bigint,
    drain_started_at bigint,
    -- Set once the job is done, failed or cancelled.
    done_at bigint,
    closed_lease bigint,
    checkpoint_bytes bigint,
    priority integer NOT NULL,
    attempts integer NOT NULL,
    preemption_epoch integer NOT NULL,
    reservation_epoch integer NOT NULL,
    waiting_on integer,
    exit_code integer,
    exit_signal integer,
    -- pending, delayed, held, blocked, reserved, running, preempting, preempted, done, failed or cancelled
    status text COLLATE "C" NOT NULL,
    closed_by text COLLATE "C",
    worker_id text COLLATE "C",
    queue text COLLATE "C",
    name text COLLATE "C",
    idempotency_key text COLLATE "C",
    gang_id text COLLATE "C",
    reason text COLLATE "C",
    -- What lists are searched by; the specification has them too.
    tags text[] COLLATE "C",
    -- JSON; changes only when a waiting job is edited.
    spec text COLLATE "C" NOT NULL,
    -- When the job itself asks to be looked at: end of a delay, deadline, end of the time an attempt may take.
    alarm_at bigint,
    -- JSON of what few jobs have: the end of a delay, a hold, workers on which it failed, outputs.
    extra text COLLATE "C",
    concurrency_key text COLLATE "C",
    unique_key text COLLATE "C",
    -- The pipeline or array that the job belongs to, and its place there.
    set_id uuid,
    step text COLLATE "C",
    set_index integer,
    gang_index integer,
    -- Place in the line by the policy in force: smaller goes first, then the smaller number.
    rank bigint NOT NULL DEFAULT 0,
    -- Microseconds for which it ran, and for which it waited for its turn before the present round.
    served bigint NOT NULL DEFAULT 0,
    waited bigint NOT NULL DEFAULT 0,
    -- It has waited for very long and goes first.
    pinned boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX jobs_by_key ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
-- The indexes below hold unfinished jobs only, but for the last one.
CREATE INDEX jobs_pending ON jobs (shape, rank, seq) INCLUDE (gang_id, queue) WHERE status = 'pending';
CREATE INDEX jobs_pinned ON jobs (seq) WHERE pinned;
CREATE INDEX jobs_waiting ON jobs (status, queue) WHERE status IN ('blocked', 'preempted', 'delayed', 'held', 'finished');
CREATE INDEX jobs_alarm ON jobs (alarm_at) WHERE alarm_at IS NOT NULL;
CREATE INDEX jobs_by_concurrency ON jobs (concurrency_key)
    WHERE concurrency_key IS NOT NULL AND status IN ('reserved', 'running', 'preempting');
CREATE INDEX jobs_by_unique ON jobs (unique_key) WHERE unique_key IS NOT NULL AND done_at IS NULL;
CREATE INDEX jobs_by_set ON jobs (set_id, seq) WHERE set_id IS NOT NULL;
CREATE INDEX jobs_of_step ON jobs (set_id, step, status) WHERE set_id IS NOT NULL;
CREATE INDEX jobs_held ON jobs (worker_id, shape, status) WHERE status IN ('reserved', 'running', 'preempting');
CREATE INDEX jobs_sign ON jobs (sign_at) WHERE sign_at IS NOT NULL;
CREATE INDEX jobs_drain ON jobs (drain_started_at) WHERE status = 'preempting';
CREATE INDEX jobs_done ON jobs (done_at) WHERE done_at IS NOT NULL;
CREATE INDEX jobs_unsuccessful ON jobs (seq) WHERE status IN ('failed', 'cancelled');
CREATE INDEX jobs_gang ON jobs (gang_id) WHERE gang_id IS NOT NULL;
CREATE INDEX jobs_gang_waiting ON jobs (gang_id, seq) WHERE status = 'blocked' AND waiting_on = 0 AND gang_id IS NOT NULL;
CREATE INDEX jobs_gang_first ON jobs (seq) WHERE gang_index = 0;
CREATE INDEX jobs_reserved ON jobs (reserved_at) WHERE status = 'reserved';
CREATE INDEX jobs_held_by_queue ON jobs (queue, shape)
    WHERE queue IS NOT NULL AND status IN ('reserved', 'running', 'preempting');

-- `child` waits for `parent`; both are numbers of jobs.
CREATE TABLE edges (
    parent bigint NOT NULL,
    child bigint NOT NULL,
    -- The place of a rule in the list of rules; 0 is "all must succeed".
    rule smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child)
);
CREATE INDEX edges_by_child ON edges (child);

CREATE TABLE checkpoints (
    job bigint PRIMARY KEY,
    bytes bytea NOT NULL
);

CREATE TABLE workers (
    id text COLLATE "C" PRIMARY KEY,
    exec_addr text NOT NULL,
    resources text NOT NULL,
    tags text NOT NULL,
    slots bigint,
    hostname text,
    version text,
    status text NOT NULL,
    last_heartbeat bigint NOT NULL,
    registered_at bigint NOT NULL,
    -- JSON; how jobs fared on the worker lately.
    health text,
    -- JSON of the ports that it keeps for gangs.
    ports text COLLATE "C",
    -- JSON of the room that it keeps for work which goes first and does not fit yet.
    kept text COLLATE "C"
) WITH (fillfactor = 50);

CREATE TABLE events (
    seq bigserial PRIMARY KEY,
    at bigint NOT NULL,
    job bigint,
    worker_id text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    -- Who caused it, where the event itself does not say so.
    caused_by text COLLATE "C"
);
CREATE INDEX events_by_job ON events (job, seq) WHERE job IS NOT NULL;

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

-- Receivers of events, as JSON with how far each has come, and the events that could not be delivered.
CREATE TABLE webhooks (
    id uuid PRIMARY KEY,
    facts text NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE dead_letters (
    webhook uuid NOT NULL,
    event bigint NOT NULL,
    -- Somebody asked for one more attempt.
    retry boolean NOT NULL,
    letter text NOT NULL,
    PRIMARY KEY (webhook, event)
);

-- What all schedulers on this store share and nobody else may know.
CREATE TABLE secrets (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- How long the last two runs took, by user, queue and name (JSON), in microseconds; forgotten when not written for long.
CREATE TABLE run_times (
    series text COLLATE "C" PRIMARY KEY,
    last_us bigint NOT NULL,
    before_us bigint NOT NULL,
    at bigint NOT NULL
);
CREATE INDEX run_times_by_age ON run_times (at);

-- Who leads each role, and until when. The term grows with every takeover.
CREATE TABLE leader_leases (
    role text COLLATE "C" PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    term bigint NOT NULL,
    expires_at bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO leader_leases (role, holder, term, expires_at)
VALUES ('reaper', '', 0, 0), ('planner', '', 0, 0), ('retention', '', 0, 0), ('webhooks', '', 0, 0);

-- What was used, summed up by hour (UTC, since 1970), user and queue (empty for none). Memory is in MiB times seconds.
-- A sum lies in several parts, so that schedulers do not wait for each other.
CREATE TABLE usage_hours (
    hour bigint NOT NULL,
    account text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    private boolean NOT NULL,
    part integer NOT NULL,
    jobs bigint NOT NULL,
    jobs_failed bigint NOT NULL,
    attempts bigint NOT NULL,
    wall_ms bigint NOT NULL,
    cpu_ms bigint NOT NULL,
    cpu_requested_ms bigint NOT NULL,
    cpu_compared_ms bigint NOT NULL,
    cpu_compared_requested_ms bigint NOT NULL,
    memory_compared bigint NOT NULL,
    memory_compared_requested bigint NOT NULL,
    gpu_ms bigint NOT NULL,
    read_bytes bigint NOT NULL,
    written_bytes bigint NOT NULL,
    peak_memory_bytes bigint NOT NULL,
    PRIMARY KEY (hour, account, queue, private, part)
);

-- Checkpoints that are too large for one transaction, in parts under one name, with the number of their job.
CREATE TABLE checkpoint_parts (
    name text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    job bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (name, number)
);
CREATE INDEX checkpoint_parts_of_job ON checkpoint_parts (job);

-- The schedulers on this database, by the name of their data directory.
CREATE TABLE schedulers (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    url text NOT NULL,
    seen_at bigint NOT NULL
);

-- Small facts by kind and key: accounts, credentials (by the digest of what their holders show), sealed secrets.
CREATE TABLE records (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    facts text NOT NULL,
    PRIMARY KEY (kind, key)
);

-- Who did what to accounts, credentials and settings.
CREATE TABLE audit (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    facts text NOT NULL
);

-- What attempts of jobs left: files in the blob store, or why one could not be kept.
CREATE TABLE artifacts (
    job bigint NOT NULL,
    lease bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    at bigint NOT NULL,
    blob text,
    size bigint NOT NULL,
    sha256 text,
    content_type text,
    missing text,
    queue text NOT NULL,
    owner text NOT NULL,
    removed bigint,
    PRIMARY KEY (job, lease, name)
);
CREATE INDEX artifacts_by_blob ON artifacts (blob) WHERE blob IS NOT NULL;
CREATE INDEX artifacts_by_queue ON artifacts (queue, size);
CREATE INDEX artifacts_by_owner ON artifacts (owner, size);
CREATE INDEX artifacts_by_age ON artifacts (at) WHERE blob IS NOT NULL;

-- Output of ended attempts that has moved out of the files of schedulers: in the row itself, or in the blob store.
CREATE TABLE outputs (
    job bigint NOT NULL,
    lease bigint NOT NULL,
    attempt bigint NOT NULL,
    stdout_written bigint NOT NULL,
    stderr_written bigint NOT NULL,
    kept bigint NOT NULL,
    grown_at bigint NOT NULL,
    whole boolean NOT NULL,
    facts text NOT NULL,
    blob text,
    content bytea,
    PRIMARY KEY (job, lease)
);
CREATE INDEX outputs_by_blob ON outputs (blob) WHERE blob IS NOT NULL;
CREATE INDEX outputs_by_age ON outputs (grown_at, kept) WHERE kept > 0;
