//! A leader that is cut off: another one leads soon, and what the old one still has in hand changes nothing.
//!
//! The schedulers live in network namespaces, so that a connection ends as it does when a machine vanishes: nobody says
//! anything any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use muster_pg_testkit::Options;
use muster_tests::{
    Backing, Cable, Machine, Postgres, Scheduler, Settings, eventually, id_of, in_own_network, until,
};
use serde_json::json;

/// In which another scheduler leads; and for everything else, which is not judged.
const TAKEOVER: Duration = Duration::from_secs(10);
const BOUND: Duration = Duration::from_secs(60);

/// A scheduler on a machine of its own, with one cable to the database and one to everybody else.
struct Host {
    database: Cable,
    people: Cable,
    scheduler: Scheduler,
    _machine: Machine,
}

fn host(backing: &Backing) -> Host {
    let machine = Machine::new(&backing.directory());
    let (database, people) = (machine.connect(), machine.connect());
    let backing = backing.seen_from(database.near());
    let settings = Settings::default().set("reaper-interval", "500ms");
    let scheduler = Scheduler::start_at(&machine, people.far(), &backing, settings);
    Host { database, people, scheduler, _machine: machine }
}

const ROLES: [&str; 3] = ["reaper", "admission", "webhooks"];

fn leads(scheduler: &Scheduler) -> bool {
    ROLES.iter().all(|role| scheduler.metric(&format!("muster_{role}_leader")) == Some(1))
}

fn term(cluster: &Postgres, backing: &Backing) -> (String, String) {
    let database = backing.url().rsplit('/').next().unwrap();
    let row = cluster.execute(database, "SELECT holder, term FROM leader_leases WHERE role = 'planner'");
    let (holder, term) = row.split_once('|').unwrap();
    (holder.to_owned(), term.to_owned())
}

/// Two schedulers, of which the first leads.
fn two(cluster: &Postgres) -> (Backing, Host, Host) {
    let backing = Backing::on(cluster);
    let leader = host(&backing);
    until("the first leads", BOUND, || leads(&leader.scheduler));
    let follower = host(&backing);
    (backing, leader, follower)
}

/// Work that needs a leader: a gang to place, and a job whose time comes.
fn needs_a_leader(scheduler: &Scheduler) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // Workers of its own, for whom nothing is reserved yet.
    let group = NUMBER.fetch_add(1, Ordering::Relaxed);
    let tag = format!("group{group}");
    let show_life = || {
        for number in 0..2 {
            scheduler.register(&json!({ "id": format!("{tag}-{number}"), "slots": 1, "tags": [tag] }));
        }
    };
    show_life();
    let gang = scheduler.submit_gang_with(&json!({ "command": "true", "gang_size": 2, "tags": [tag] }));
    let delayed = id_of(&scheduler.submit_job(&json!({ "command": "true", "delay_seconds": 1 })));
    until("the gang is placed", BOUND, || {
        show_life();
        scheduler.gang_statuses(&gang) == ["reserved", "reserved"]
    });
    scheduler.await_status(&delayed, "pending", BOUND);
}

fn takes_over(cluster: &Postgres, cut: impl FnOnce(&Host)) -> (Backing, Host, Host) {
    let (backing, leader, follower) = two(cluster);
    needs_a_leader(&leader.scheduler);
    let before = term(cluster, &backing);
    let pulled = Instant::now();
    cut(&leader);
    eventually("the other one leads", BOUND, || leads(&follower.scheduler).then_some(()));
    let took = pulled.elapsed();
    assert!(took < TAKEOVER, "nobody led for {took:?}");
    needs_a_leader(&follower.scheduler);
    let after = term(cluster, &backing);
    assert!(before.0 != after.0 && after.1 > before.1, "{before:?} {after:?}");
    (backing, leader, follower)
}

/// What the server still kept for the one that is gone: sessions from its address.
fn sessions(cluster: &Postgres, host: &Host) -> usize {
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE client_addr = '{}'", host.database.far());
    cluster.execute("postgres", &sql).parse().unwrap()
}

#[test]
fn a_leader_whose_machine_is_gone_is_replaced() {
    in_own_network("partitions::a_leader_whose_machine_is_gone_is_replaced", || {
        let cluster = Postgres::start_with(Options { everywhere: true, ..Options::default() });
        let (backing, leader, follower) = takes_over(&cluster, |leader| {
            leader.database.pull();
            leader.people.pull();
        });
        until("the server has let go of its sessions", BOUND, || sessions(&cluster, &leader) == 0);
        let (term_before, jobs) = (term(&cluster, &backing), follower.scheduler.jobs());
        // It comes back with all it had in hand.
        leader.database.plug_in();
        leader.people.plug_in();
        until("it reaches the database again", BOUND, || {
            leader.scheduler.http().get("/readyz").status == 200
        });
        until("it has understood", BOUND, || !leads(&leader.scheduler));
        assert!(leads(&follower.scheduler));
        assert_eq!(term(&cluster, &backing), term_before);
        assert_eq!(follower.scheduler.jobs().len(), jobs.len());
        needs_a_leader(&leader.scheduler);
    });
}

#[test]
fn a_leader_that_loses_only_the_database_is_replaced() {
    in_own_network("partitions::a_leader_that_loses_only_the_database_is_replaced", || {
        let cluster = Postgres::start_with(Options { everywhere: true, ..Options::default() });
        let (_, leader, _follower) = takes_over(&cluster, |leader| leader.database.pull());
        assert_eq!(leader.scheduler.http().get("/healthz").status, 200);
        until("it knows that it does not lead", BOUND, || !leads(&leader.scheduler));
        assert_eq!(leader.scheduler.http().get("/readyz").status, 503);
        leader.database.plug_in();
        until("it serves again", BOUND, || leader.scheduler.http().get("/readyz").status == 200);
        needs_a_leader(&leader.scheduler);
    });
}

/// A database that says nothing any more: nobody waits long for it, and nobody once that is known.
#[test]
fn a_submit_without_the_database_is_answered_soon() {
    in_own_network("partitions::a_submit_without_the_database_is_answered_soon", || {
        let cluster = Postgres::start_with(Options { everywhere: true, ..Options::default() });
        let host = host(&Backing::on(&cluster));
        let http = host.scheduler.http();
        host.scheduler.submit("before");
        host.database.pull();
        let pulled = Instant::now();
        let refused = eventually("a submit is refused", BOUND, || {
            let answer = http.post("/jobs", r#"{"command":"during"}"#);
            (answer.status == 503).then_some(answer)
        });
        // Two seconds, and what a busy machine needs. Left to the kernel it is eleven and more.
        assert!(pulled.elapsed() < Duration::from_secs(9), "{:?}", pulled.elapsed());
        assert!(refused.header("retry-after").is_some());
        let again = Instant::now();
        for _ in 0..10 {
            http.post("/jobs", r#"{"command":"during"}"#).expect(503);
        }
        assert!(
            again.elapsed() < Duration::from_secs(9),
            "nobody waits for what is known: {:?}",
            again.elapsed()
        );
        assert!(http.get("/readyz").text().contains("out of reach"));
        host.database.plug_in();
        until("it serves again", BOUND, || http.post("/jobs", r#"{"command":"after"}"#).status == 201);
    });
}
