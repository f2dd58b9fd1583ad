-- Who leads each role, and until when. The term grows with every takeover.
CREATE TABLE leader_leases (
    role text COLLATE "C" PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    term bigint NOT NULL,
    expires_at bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO leader_leases (role, holder, term, expires_at)
VALUES ('reaper', '', 0, 0), ('planner', '', 0, 0), ('retention', '', 0, 0), ('webhooks', '', 0, 0);
