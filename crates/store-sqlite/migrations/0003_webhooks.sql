-- Receivers of events, as JSON with how far each has come, and the events that could not be delivered.
CREATE TABLE webhooks (
    id BLOB PRIMARY KEY,
    facts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE dead_letters (
    webhook BLOB NOT NULL,
    event INTEGER NOT NULL,
    -- Somebody asked for one more attempt.
    retry INTEGER NOT NULL,
    letter TEXT NOT NULL,
    PRIMARY KEY (webhook, event)
) STRICT, WITHOUT ROWID;
