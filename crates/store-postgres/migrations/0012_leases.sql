-- When the lease of a running or stopping job ends, where it says how long it lasts; such a job has no sign_at.
-- Sweeps read all that is held: an index would be written with every sign of life.
ALTER TABLE jobs ADD COLUMN lease_ends_at bigint;
