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
