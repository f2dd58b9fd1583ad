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
