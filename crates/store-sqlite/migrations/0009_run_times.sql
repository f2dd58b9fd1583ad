-- How long the last two runs took, by user, queue and name (JSON), in microseconds; forgotten when not written for long.
CREATE TABLE run_times (
    series TEXT PRIMARY KEY,
    last_us INTEGER NOT NULL,
    before_us INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_times_by_age ON run_times (at);
