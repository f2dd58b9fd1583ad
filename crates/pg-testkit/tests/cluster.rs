//! The kit keeps its promises: data survives every kind of stop, nothing survives the drop.

use std::net::TcpStream;

use muster_pg_testkit::{PortLease, Postgres};

#[test]
fn databases_of_the_shared_cluster_are_separate() {
    let first = Postgres::shared().database();
    let second = Postgres::shared().database();
    first.execute("CREATE TABLE only_here (value int)");
    assert_eq!(second.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'"), "0");
    assert_ne!(first.url(), second.url());
}

#[test]
fn committed_rows_survive_every_kind_of_stop() {
    let cluster = Postgres::start();
    let database = cluster.database();
    database.execute("CREATE TABLE kept (value int)");
    let stops: [fn(&Postgres); 3] = [Postgres::stop, Postgres::stop_immediate, Postgres::kill9];
    for (number, stop) in stops.iter().enumerate() {
        database.execute(&format!("INSERT INTO kept VALUES ({number})"));
        stop(&cluster);
        assert!(!cluster.is_running());
        assert!(TcpStream::connect(("127.0.0.1", cluster.port())).is_err(), "stopped, yet it accepts");
        cluster.restart();
    }
    assert_eq!(database.execute("SELECT string_agg(value::text, ',' ORDER BY value) FROM kept"), "0,1,2");
}

#[test]
fn a_dropped_cluster_is_gone() {
    let cluster = Postgres::start();
    let port = cluster.port();
    drop(cluster);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn leased_ports_differ() {
    let leases: Vec<PortLease> = (0..20).map(|_| PortLease::take()).collect();
    let mut ports: Vec<u16> = leases.iter().map(PortLease::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 20);
}
