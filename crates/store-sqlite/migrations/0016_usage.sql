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
