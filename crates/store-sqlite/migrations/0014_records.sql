-- Small facts by kind and key: accounts, credentials (by the digest of what their holders show), sealed secrets.
CREATE TABLE records (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

-- Who did what to accounts, credentials and settings.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    facts TEXT NOT NULL
) STRICT;
