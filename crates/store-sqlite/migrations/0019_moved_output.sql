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
