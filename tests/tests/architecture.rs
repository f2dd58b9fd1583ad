//! Dependencies point one way: what each crate may link, checked against what cargo resolves.

use muster_tests::tree::Dependencies;

const DATABASES: [&str; 5] =
    ["rusqlite", "libsqlite3-sys", "tokio-postgres", "deadpool-postgres", "postgres-protocol"];
const HTTP_SERVERS: [&str; 2] = ["axum", "axum-core"];

fn links_none(package: &str, forbidden: &[&str]) {
    let linked = Dependencies::resolved().linked(package);
    let found: Vec<&&str> = forbidden.iter().filter(|name| linked.contains(**name)).collect();
    assert!(found.is_empty(), "{package} links {found:?}");
}

#[test]
fn the_worker_links_no_database_no_store_no_planner_and_no_server() {
    for package in ["muster-worker", "muster-worker-agent"] {
        links_none(package, &DATABASES);
        links_none(package, &HTTP_SERVERS);
        links_none(
            package,
            &[
                "muster-planner",
                "muster-store",
                "muster-store-sqlite",
                "muster-store-postgres",
                "muster-server",
            ],
        );
    }
}

#[test]
fn the_scheduler_links_no_worker() {
    links_none("muster-scheduler", &["muster-worker-agent", "muster-worker"]);
    links_none("muster-server", &["muster-worker-agent", "muster-worker", "muster-client"]);
}

#[test]
fn no_scheduler_can_open_a_secret() {
    for package in
        ["muster-scheduler", "muster-server", "muster-store", "muster-store-sqlite", "muster-store-postgres"]
    {
        links_none(package, &["muster-seal", "dryoc"]);
    }
}

#[test]
fn domain_and_planner_are_pure() {
    for package in ["muster-domain", "muster-planner"] {
        links_none(package, &["tokio", "futures", "rand", "jiff", "hyper", "reqwest"]);
        links_none(package, &DATABASES);
        links_none(package, &HTTP_SERVERS);
    }
    links_none("muster-domain", &["muster-planner", "muster-store", "muster-protocol"]);
    links_none("muster-planner", &["muster-store", "muster-protocol"]);
}

#[test]
fn uploads_are_cut_and_checked_in_pure_code() {
    let dependencies = Dependencies::resolved();
    let ours: Vec<String> =
        dependencies.direct("muster-upload").intersection(dependencies.members()).cloned().collect();
    assert_eq!(ours, ["muster-protocol"]);
    links_none("muster-upload", &["tokio", "rand", "hyper", "ignore"]);
}

#[test]
fn protocol_stands_alone() {
    let dependencies = Dependencies::resolved();
    let ours: Vec<String> =
        dependencies.linked("muster-protocol").intersection(dependencies.members()).cloned().collect();
    assert!(ours.is_empty(), "muster-protocol links {ours:?}");
    links_none("muster-protocol", &["tokio"]);
    links_none("muster-client", &["muster-server", "muster-store", "muster-domain"]);
}

#[test]
fn the_blob_store_knows_nothing_of_jobs() {
    let dependencies = Dependencies::resolved();
    let ours: Vec<String> =
        dependencies.direct("muster-blob").intersection(dependencies.members()).cloned().collect();
    assert_eq!(ours, ["muster-tls"]);
    links_none("muster-blob", &HTTP_SERVERS);
    // Workers and clients get links, and never a credential of the bucket.
    for package in ["muster-worker", "muster-worker-agent", "muster-client"] {
        links_none(package, &["muster-blob", "rusty-s3"]);
    }
}

#[test]
fn the_store_interface_knows_no_dialect_and_no_http() {
    links_none("muster-store", &DATABASES);
    links_none("muster-store", &HTTP_SERVERS);
    links_none("muster-store", &["muster-protocol", "muster-server"]);
    links_none("muster-store-sqlite", &["tokio-postgres", "muster-protocol"]);
    links_none("muster-store-postgres", &["rusqlite", "muster-protocol"]);
}

#[test]
fn the_simulation_runs_on_the_server_and_the_memory_store_and_nothing_runs_on_it() {
    let dependencies = Dependencies::resolved();
    let ours: Vec<String> =
        dependencies.direct("muster-sim").intersection(dependencies.members()).cloned().collect();
    assert_eq!(ours, ["muster-domain", "muster-protocol", "muster-server", "muster-store"]);
    links_none("muster-sim", &DATABASES);
    let direct = dependencies.direct("muster-sim");
    // Time and chance come from the seed.
    let named: Vec<&&str> = ["rand", "jiff", "uuid"].iter().filter(|name| direct.contains(**name)).collect();
    assert!(named.is_empty(), "muster-sim names {named:?}");
    for package in dependencies.members().iter().filter(|package| *package != "muster-sim") {
        links_none(package, &["muster-sim"]);
    }
}

#[test]
fn the_replay_is_pure_and_plays_the_planner_itself() {
    let dependencies = Dependencies::resolved();
    let ours: Vec<String> =
        dependencies.direct("muster-replay").intersection(dependencies.members()).cloned().collect();
    assert_eq!(ours, ["muster-document", "muster-domain", "muster-planner"]);
    links_none(
        "muster-replay",
        &["tokio", "futures", "rand", "hyper", "flate2", "muster-store", "muster-server"],
    );
    links_none("muster-replay", &DATABASES);
    links_none("muster-replay", &HTTP_SERVERS);
}

#[test]
fn only_the_stores_name_a_database_and_only_the_server_names_axum() {
    let dependencies = Dependencies::resolved();
    for package in dependencies.members() {
        // The bench measures the bare database and the bare HTTP server beside ours.
        if package == "muster-bench" {
            continue;
        }
        let direct = dependencies.direct(package);
        if !package.starts_with("muster-store-") {
            let named: Vec<&&str> = DATABASES.iter().filter(|name| direct.contains(**name)).collect();
            assert!(named.is_empty(), "{package} names {named:?}");
        }
        if package != "muster-server" {
            assert!(!direct.contains("axum"), "{package} names axum");
        }
    }
}
