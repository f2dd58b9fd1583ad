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
