-- Small facts by kind and key: accounts, credentials (by the digest of what their holders show), sealed secrets.
CREATE TABLE records (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    facts text NOT NULL,
    PRIMARY KEY (kind, key)
);

-- Who did what to accounts, credentials and settings.
CREATE TABLE audit (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    facts text NOT NULL
);
