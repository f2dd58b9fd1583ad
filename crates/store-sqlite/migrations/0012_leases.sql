-- When the lease of a running or stopping job ends, where it says how long it lasts; such a job has no sign_at.
ALTER TABLE jobs ADD COLUMN lease_ends_at INTEGER;
CREATE INDEX jobs_lease_end ON jobs (lease_ends_at) WHERE lease_ends_at IS NOT NULL;
