-- What attempts of jobs left: files in the blob store, or why one could not be kept.
CREATE TABLE artifacts (
    job bigint NOT NULL,
    lease bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    at bigint NOT NULL,
    blob text,
    size bigint NOT NULL,
    sha256 text,
    content_type text,
    missing text,
    queue text NOT NULL,
    owner text NOT NULL,
    PRIMARY KEY (job, lease, name)
);
CREATE INDEX artifacts_by_blob ON artifacts (blob) WHERE blob IS NOT NULL;
CREATE INDEX artifacts_by_queue ON artifacts (queue, size);
CREATE INDEX artifacts_by_owner ON artifacts (owner, size);
