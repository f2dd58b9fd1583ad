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
    -- pending, blocked, reserved, running, preempting, preempted, done, failed or cancelled
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
    -- JSON; never changes.
    spec text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX jobs_by_key ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
-- The indexes below hold unfinished jobs only, but for the last one.
CREATE INDEX jobs_pending ON jobs (shape, priority DESC, seq) INCLUDE (gang_id, queue) WHERE status = 'pending';
CREATE INDEX jobs_waiting ON jobs (status) WHERE status IN ('blocked', 'preempted');
CREATE INDEX jobs_held ON jobs (worker_id, shape, status) WHERE status IN ('reserved', 'running', 'preempting');
CREATE INDEX jobs_sign ON jobs (sign_at) WHERE sign_at IS NOT NULL;
CREATE INDEX jobs_drain ON jobs (drain_started_at) WHERE status = 'preempting';
CREATE INDEX jobs_done ON jobs (done_at) WHERE done_at IS NOT NULL;

-- `child` waits for `parent`; both are numbers of jobs.
CREATE TABLE edges (
    parent bigint NOT NULL,
    child bigint NOT NULL,
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
    registered_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE events (
    seq bigserial PRIMARY KEY,
    at bigint NOT NULL,
    job bigint,
    worker_id text COLLATE "C",
    kind text COLLATE "C" NOT NULL
);
CREATE INDEX events_by_job ON events (job, seq) WHERE job IS NOT NULL;
