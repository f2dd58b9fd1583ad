-- When the bytes of an artifact were removed while its job stayed.
ALTER TABLE artifacts ADD COLUMN removed INTEGER;
CREATE INDEX artifacts_by_age ON artifacts (at) WHERE blob IS NOT NULL;
