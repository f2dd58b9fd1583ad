-- Who caused the event, as text; empty where the event itself says so, and of events from before this was written down.
ALTER TABLE events ADD COLUMN caused_by TEXT;
