-- How long the last two runs took, by user, queue and name (JSON), in microseconds; forgotten when not written for long.
CREATE TABLE run_times (
    series text COLLATE "C" PRIMARY KEY,
    last_us bigint NOT NULL,
    before_us bigint NOT NULL,
    at bigint NOT NULL
);
CREATE INDEX run_times_by_age ON run_times (at);
