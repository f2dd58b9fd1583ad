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
