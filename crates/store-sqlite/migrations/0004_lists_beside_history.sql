-- Lists of what has not ended, or did not succeed, must not walk past everything that ever ran.
CREATE INDEX jobs_unfinished ON jobs (seq) WHERE done_at IS NULL;
CREATE INDEX jobs_unsuccessful ON jobs (seq) WHERE status IN ('failed', 'cancelled');
