-- What attempts of jobs left: files in the blob store, or why one could not be kept.
CREATE TABLE artifacts (
    job INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    blob TEXT,
    size INTEGER NOT NULL,
    sha256 TEXT,
    content_type TEXT,
    missing TEXT,
    queue TEXT NOT NULL,
    owner TEXT NOT NULL,
    PRIMARY KEY (job, lease, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifacts_by_blob ON artifacts (blob) WHERE blob IS NOT NULL;
CREATE INDEX artifacts_by_queue ON artifacts (queue, size);
CREATE INDEX artifacts_by_owner ON artifacts (owner, size);
