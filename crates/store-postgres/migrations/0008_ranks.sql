-- The place of a job in the line, as the policy gives it, and what it has had so far. Jobs that are there
-- already keep their order: by priority, and none of them has had any service.
ALTER TABLE jobs
    ADD COLUMN rank bigint NOT NULL DEFAULT 0,
    ADD COLUMN served bigint NOT NULL DEFAULT 0,
    ADD COLUMN waited bigint NOT NULL DEFAULT 0,
    ADD COLUMN pinned boolean NOT NULL DEFAULT false;
UPDATE jobs SET rank = ((2147483647 - priority::bigint) << 8) | 1 WHERE done_at IS NULL;
DROP INDEX jobs_pending;
CREATE INDEX jobs_pending ON jobs (shape, rank, seq) INCLUDE (gang_id, queue) WHERE status = 'pending';
CREATE INDEX jobs_pinned ON jobs (seq) WHERE pinned;
