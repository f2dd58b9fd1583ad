//! Requests made up from `/openapi.json` and from valid ones, sent to a real scheduler by several clients at once.
//!
//! It promises: no answer of 500 and above but a 503 that says which bound was reached; no panic; the scheduler lives, and a
//! job that was submitted before runs through like one that is submitted after. The same seed makes the same requests;
//! how those of several clients meet depends on the machine.

mod client;
mod credentials;
mod requests;
mod values;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use self::client::Client;
pub use self::requests::Made;
use self::requests::{Known, Maker};
pub use self::world::Accounts;
use self::world::World;
use crate::wait::until;

/// Clients that send at the same time.
const CLIENTS: u64 = 4;
/// Requests of one client after which there are new credentials.
const RENEWED: usize = 100;
/// Findings beyond which a run ends.
const ENOUGH: usize = 20;
/// Codes of 503 that say which bound was reached, or who has what is asked for.
const BOUNDS: [&str; 6] = [
    "checkpoint_elsewhere",
    "logs_elsewhere",
    "overloaded",
    "too_many_bodies",
    "too_many_long_polls",
    "too_many_readers",
];

/// What a run came to.
#[derive(Debug, Default)]
pub struct Account {
    pub requests: usize,
    pub seconds: u64,
    /// Answers by their status; 0 where the connection was closed without one.
    pub statuses: BTreeMap<u16, usize>,
    /// Broken promises, each with what shows it.
    pub findings: Vec<String>,
}

/// Sends `count` requests. Prints nothing.
pub fn run(accounts: Accounts, seed: u64, count: usize) -> Account {
    let started = Instant::now();
    let mut world = World::start(accounts);
    let maker = Maker::new(&world.document());
    let (known, left) = (Known::default(), AtomicUsize::new(count));
    let account = Mutex::new(Account::default());
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (world, maker, known, left, account) = (&world, &maker, &known, &left, &account);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed.wrapping_mul(CLIENTS).wrapping_add(number));
                let mut client = Client::new(world.http());
                let mut sent = 0;
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    sent += 1;
                    if number == 0 && sent % RENEWED == 0 {
                        world.renew();
                    }
                    let made = maker.make(&mut random, &world.shown(), known);
                    let answer = client.send(&made);
                    known.learn(&made, &answer);
                    let mut account = account.lock().expect("no client has panicked");
                    account.requests += 1;
                    *account.statuses.entry(answer.status).or_default() += 1;
                    if let Some(finding) = judge(&made, answer.status, &answer.body) {
                        account.findings.push(finding);
                    }
                    if account.findings.len() >= ENOUGH {
                        return;
                    }
                }
            });
        }
    });
    let mut account = account.into_inner().expect("no client has panicked");
    account.findings.extend(world.afterwards());
    account.seconds = started.elapsed().as_secs();
    account
}

/// What is wrong with an answer.
fn judge(made: &Made, status: u16, body: &str) -> Option<String> {
    let typed = |code: &str| body.contains(&format!("\"code\":\"{code}\""));
    if status < 500 || (status == 503 && BOUNDS.iter().any(|code| typed(code))) {
        return None;
    }
    let body: String = body.chars().take(400).collect();
    Some(format!("{status} {body}\n    to {}", made.shown()))
}

/// Waits until a condition holds that a run must not have broken; otherwise says so.
fn still(what: &str, condition: impl FnMut() -> bool) -> Option<String> {
    let mut condition = condition;
    let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until(what, std::time::Duration::from_secs(30), &mut condition);
    }));
    held.err().map(|_| format!("after the requests it does not hold any more: {what}"))
}
