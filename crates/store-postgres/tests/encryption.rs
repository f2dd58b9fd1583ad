//! TLS to a real server: what each `sslmode` accepts, what it refuses, and that no connection is left in clear text.
#![expect(clippy::unwrap_used, reason = "test code, also outside of the test functions")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use muster_pg_testkit::{Database, Postgres};
use muster_store::engine::Policies;
use muster_store::{Store as _, StoreError};
use muster_store_postgres::{PostgresOptions, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate for 127.0.0.1, the file of its authority, and that of another one.
struct Encrypted {
    server: Postgres,
    known: PathBuf,
    other: PathBuf,
    directory: PathBuf,
}

impl Encrypted {
    fn start() -> Self {
        let (ours, other) = (authority("ours"), authority("other"));
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1".to_owned(), "db.example".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &ours).unwrap();
        let server = Postgres::start();
        server.encrypt(&certificate.pem(), &key.serialize_pem());
        let directory =
            std::env::temp_dir().join(format!("muster-ca-{}-{}", std::process::id(), server.port()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, authority: &Authority| {
            let path = directory.join(name);
            std::fs::write(&path, authority.pem()).unwrap();
            path
        };
        let (known, other) = (write("known.pem", &ours), write("other.pem", &other));
        Self { server, known, other, directory }
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

async fn connect(url: &str) -> Result<PostgresStore, StoreError> {
    PostgresStore::connect(url, PostgresOptions::default(), Policies::default()).await
}

async fn refused(url: &str) -> String {
    connect(url).await.unwrap_err().to_string()
}

/// How many connections of ours are encrypted, and how many are not.
fn connections(database: &Database<'_>) -> (usize, usize) {
    let rows = database.execute(
        "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
         WHERE a.application_name = 'muster' AND a.datname = current_database()",
    );
    let encrypted = rows.lines().filter(|row| *row == "t").count();
    (encrypted, rows.lines().count() - encrypted)
}

/// Work, the question whether the server is there, and the line for wake-ups: a connection each.
async fn use_all(store: &PostgresStore, database: &Database<'_>) -> (usize, usize) {
    // The first question replaces the connections that were there before it.
    store.ping().await.unwrap();
    store.time().await.unwrap();
    let mut wakes = store.wakes();
    let listening = tokio::spawn(async move { while wakes.next().await.is_some() {} });
    let deadline = Instant::now() + Duration::from_secs(120);
    let found = loop {
        let found = connections(database);
        // One that was replaced may take a moment to go.
        if found.0 + found.1 == 3 {
            break found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    listening.abort();
    store.close().await;
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_is_encrypted_where_that_is_asked_for() {
    let encrypted = Encrypted::start();
    for (mode, expected) in [
        ("?sslmode=require".to_owned(), (3, 0)),
        (format!("?sslmode=verify-full&sslrootcert={}", encrypted.known.display()), (3, 0)),
        ("?sslmode=prefer".to_owned(), (3, 0)),
        (String::new(), (3, 0)),
        ("?sslmode=disable".to_owned(), (0, 3)),
    ] {
        let database = encrypted.server.database();
        let store = connect(&format!("{}{mode}", database.url())).await.unwrap();
        assert_eq!(use_all(&store, &database).await, expected, "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_known_is_refused_with_what_to_do() {
    let encrypted = Encrypted::start();
    let database = encrypted.server.database();
    let by_address = database.url();
    let by_name = by_address.replace("127.0.0.1", "localhost");
    let (known, other) = (encrypted.known.display(), encrypted.other.display());

    for mode in ["verify-full", "verify-ca", "require"] {
        let text = refused(&format!("{by_address}?sslmode={mode}&sslrootcert={other}")).await;
        assert!(text.contains("no trusted CA") && text.contains("sslrootcert=FILE"), "{mode}: {text}");
    }
    let system = refused(&format!("{by_address}?sslmode=verify-full")).await;
    assert!(system.contains("no trusted CA"), "{system}");
    let named = refused(&format!("{by_name}?sslmode=verify-full&sslrootcert={known}")).await;
    assert!(named.contains("not for localhost") && named.contains("db.example"), "{named}");
    for mode in ["verify-ca", "require"] {
        connect(&format!("{by_name}?sslmode={mode}&sslrootcert={known}")).await.unwrap();
    }
    let missing = refused(&format!("{by_address}?sslmode=verify-full&sslrootcert=/no/such.pem")).await;
    assert!(missing.contains("/no/such.pem"), "{missing}");
    let unknown = refused(&format!("{by_address}?sslmode=verify")).await;
    assert!(unknown.contains("sslmode is \"verify\""), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_starts_does_not_wait_for_another_certificate() {
    let encrypted = Encrypted::start();
    let database = encrypted.server.database();
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", database.url(), encrypted.other.display());
    let started = PostgresStore::connect_or_wait(&url, PostgresOptions::default(), Policies::default()).await;
    assert!(started.unwrap_err().to_string().contains("not trusted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let database = Postgres::shared().database();
    let url = format!("{}?sslmode=require", database.url());
    let started = PostgresStore::connect_or_wait(&url, PostgresOptions::default(), Policies::default()).await;
    let text = started.unwrap_err().to_string();
    assert!(text.contains("server does not support TLS"), "{text}");
    connect(&format!("{}?sslmode=prefer", database.url())).await.unwrap();
}
