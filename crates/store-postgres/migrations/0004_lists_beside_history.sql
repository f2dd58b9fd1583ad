-- Lists of what did not succeed must not walk past everything that ever ran. What has not ended is found by the
-- indexes that there are: one more of it would be written at every change of a job.
CREATE INDEX jobs_unsuccessful ON jobs (seq) WHERE status IN ('failed', 'cancelled');
