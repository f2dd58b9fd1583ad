-- What each queue uses is counted at every start of a job that a quota or a limit applies to.
CREATE INDEX jobs_held_by_queue ON jobs (queue, shape)
    WHERE queue IS NOT NULL AND status IN ('reserved', 'running', 'preempting');
