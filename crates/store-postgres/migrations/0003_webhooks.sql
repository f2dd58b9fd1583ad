-- Receivers of events, as JSON with how far each has come, and the events that could not be delivered.
CREATE TABLE webhooks (
    id uuid PRIMARY KEY,
    facts text NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE dead_letters (
    webhook uuid NOT NULL,
    event bigint NOT NULL,
    -- Somebody asked for one more attempt.
    retry boolean NOT NULL,
    letter text NOT NULL,
    PRIMARY KEY (webhook, event)
);
