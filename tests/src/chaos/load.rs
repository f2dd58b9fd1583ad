//! Clients that submit without pause and insist until each submit is acknowledged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::ledger::{Labour, Ledger, SUMS};
use crate::container_engine::IMAGE;
use crate::process::binary;
use crate::{Gang, Http, id_of};

const CLIENTS: u64 = 3;

/// Attempts that nothing but a program that fails should use up.
const PLENTY: u32 = 1_000;

/// Sizes of checkpoints: one that fits into the environment of a job, and one that does not.
const CHECKPOINT_BYTES: [usize; 2] = [1_000, 200_000];

/// Bytes of artifacts: one that goes as a whole, and one that S3 gets in parts.
const ARTIFACT_BYTES: [usize; 2] = [20_000, 20_000_000];

/// A submit that was acknowledged.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// The job, or the first task of a gang.
    pub id: String,
    pub name: String,
    pub depends_on: Vec<String>,
    pub fails: bool,
    /// The tasks of a gang.
    pub tasks: Vec<String>,
    /// The size of the checkpoints that it saves.
    pub checkpoints: Option<usize>,
    /// The size of the artifact that it leaves.
    pub artifact: Option<usize>,
}

impl Submitted {
    /// The jobs that were made of it.
    pub fn jobs(&self) -> &[String] {
        if self.tasks.is_empty() { std::slice::from_ref(&self.id) } else { &self.tasks }
    }
}

/// Of what the load is made, in shares of all submits; the rest are jobs that only sleep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mix {
    pub gangs: f64,
    pub checkpoints: f64,
    pub children: f64,
    /// Jobs that leave an artifact.
    pub artifacts: f64,
    /// Jobs that a directory is sent along with, by the command line.
    pub uploads: f64,
    /// Of the jobs that only sleep, those in containers.
    pub containers: f64,
}

/// How many submits were acknowledged so far.
#[derive(Debug, Default)]
pub struct Progress {
    pub jobs: AtomicUsize,
    pub gangs: AtomicUsize,
}

/// The running clients.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    clients: Vec<JoinHandle<Vec<Submitted>>>,
}

impl Load {
    /// Each client speaks to one of the schedulers.
    pub fn start(schedulers: &[Http], ledger: &Ledger, seed: u64, mix: Mix) -> Self {
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        let ledger = Arc::new(ledger.clone());
        let clients = (0..CLIENTS).map(|number| {
            let (stop, progress, ledger) = (Arc::clone(&stop), Arc::clone(&progress), Arc::clone(&ledger));
            let http = schedulers[number as usize % schedulers.len()];
            thread::spawn(move || {
                Client::new(http, seed, number, mix).submit_until(&stop, &progress, &ledger)
            })
        });
        Self { clients: clients.collect(), stop, progress }
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Ends the clients, each after its current submit, and collects what was acknowledged.
    pub fn stop(self) -> Vec<Submitted> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.clients.into_iter().map(|client| client.join().expect("no client gave up"));
        ended.flatten().collect()
    }
}

struct Client {
    http: Http,
    number: u64,
    random: StdRng,
    mix: Mix,
    acknowledged: Vec<Submitted>,
}

impl Client {
    fn new(http: Http, seed: u64, number: u64, mix: Mix) -> Self {
        let random = StdRng::seed_from_u64(seed ^ (number + 1));
        Self { http, number, random, mix, acknowledged: Vec::new() }
    }

    fn submit_until(mut self, stop: &AtomicBool, progress: &Progress, ledger: &Ledger) -> Vec<Submitted> {
        while !stop.load(Ordering::Relaxed) {
            let gang = self.draws(self.mix.gangs);
            let submitted = if gang {
                self.submit_gang(ledger)
            } else if self.draws(self.mix.uploads) {
                self.submit_upload(ledger)
            } else {
                self.submit_one(ledger)
            };
            let counter = if gang { &progress.gangs } else { &progress.jobs };
            counter.fetch_add(1, Ordering::Relaxed);
            self.acknowledged.push(submitted);
            thread::sleep(Duration::from_millis(self.random.random_range(50..400)));
        }
        self.acknowledged
    }

    fn name(&self) -> String {
        format!("client-{}-{}", self.number, self.acknowledged.len())
    }

    /// Submits one job: most succeed after a while, some fail twice and for good, some follow an earlier one.
    fn submit_one(&mut self, ledger: &Ledger) -> Submitted {
        let name = self.name();
        let fails = self.random.random_bool(0.1);
        let singles = |earlier: &&Submitted| !earlier.fails && earlier.tasks.is_empty();
        let good: Vec<&Submitted> = self.acknowledged.iter().filter(singles).collect();
        let follows = !good.is_empty() && self.random.random_bool(0.25);
        let depends_on =
            if follows { vec![good[self.random.random_range(0..good.len())].id.clone()] } else { Vec::new() };
        let labour = self.labour();
        let mut request = json!({
            "command": ledger.command(labour, u8::from(fails)),
            "name": name,
            "idempotency_key": name,
            "depends_on": depends_on,
            "max_retries": if fails { 2 } else { PLENTY },
        });
        let in_container = matches!(labour, Labour::Sleep(_)) && self.draws(self.mix.containers);
        if in_container {
            let books = ledger.directory().display().to_string();
            request["image"] = json!(IMAGE);
            request["container"] = json!({ "mounts": [format!("{books}:{books}")] });
        }
        let id = id_of(&self.insist(&request));
        let checkpoints = if let Labour::Checkpoints(bytes) = labour { Some(bytes) } else { None };
        let artifact = if let Labour::Artifact(bytes) = labour { Some(bytes) } else { None };
        Submitted { id, name, depends_on, fails, tasks: Vec::new(), checkpoints, artifact }
    }

    fn draws(&mut self, share: f64) -> bool {
        share > 0.0 && self.random.random_bool(share)
    }

    /// Sends a directory along by the command line, which is killed now and then and always asked again.
    fn submit_upload(&mut self, ledger: &Ledger) -> Submitted {
        let name = self.name();
        let directory = ledger.directory().join(format!("upload-{}", self.number));
        write_upload(&directory, &name);
        let command = ledger.command(Labour::Upload, 0);
        let id = loop {
            let mut submit = Command::new(binary("muster"));
            submit.args(["submit", "--url", &self.http.url(), "--upload"]).arg(&directory);
            submit.args(["--name", &name, "--idempotency-key", &name]);
            submit.args(["--max-retries", &PLENTY.to_string(), "--", "sh", "-c", &command]);
            let submit = submit.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = submit.spawn().expect("muster can be started");
            if self.random.random_bool(0.3) {
                thread::sleep(Duration::from_millis(self.random.random_range(0..150)));
                let _ = child.kill();
            }
            let output = child.wait_with_output().expect("muster can be waited for");
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if output.status.success() && !said.is_empty() {
                break said;
            }
            thread::sleep(Duration::from_millis(50));
        };
        Submitted {
            id,
            name,
            depends_on: Vec::new(),
            fails: false,
            tasks: Vec::new(),
            checkpoints: None,
            artifact: None,
        }
    }

    fn labour(&mut self) -> Labour {
        let (draw, seconds) = (self.random.random_range(0.0..1.0), self.random.random_range(0.0..1.2));
        let bytes = CHECKPOINT_BYTES[self.random.random_range(0..CHECKPOINT_BYTES.len())];
        if draw < self.mix.checkpoints {
            Labour::Checkpoints(bytes)
        } else if draw < self.mix.checkpoints + self.mix.children {
            Labour::Child(seconds)
        } else if draw < self.mix.checkpoints + self.mix.children + self.mix.artifacts {
            Labour::Artifact(ARTIFACT_BYTES[usize::from(self.random.random_bool(0.2))])
        } else {
            Labour::Sleep(seconds)
        }
    }

    /// Submits a gang whose tasks all succeed after a while.
    fn submit_gang(&mut self, ledger: &Ledger) -> Submitted {
        let name = self.name();
        let seconds = self.random.random_range(0.8..2.0);
        let request = json!({
            "command": ledger.command(Labour::Sleep(seconds), 0),
            "name": name,
            "idempotency_key": name,
            "gang_size": self.random.random_range(2..=4),
            "max_retries": PLENTY,
        });
        let gang = Gang::of(&self.insist(&request));
        let id = gang.tasks.first().cloned().unwrap_or_default();
        Submitted {
            id,
            name,
            depends_on: Vec::new(),
            fails: false,
            tasks: gang.tasks,
            checkpoints: None,
            artifact: None,
        }
    }

    /// Repeats the request until it is acknowledged; the key makes the repetition harmless.
    fn insist(&mut self, request: &Value) -> Value {
        loop {
            let sent = self.http.request("POST", "/jobs").body(request.to_string()).try_send();
            match sent {
                Ok(response) if matches!(response.status, 200 | 201) => return response.json(),
                Ok(response) => assert_eq!(response.status, 503, "{}", response.text()),
                Err(_) => {}
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A directory that differs from the one before in one file only, and knows its digests.
fn write_upload(directory: &Path, name: &str) {
    let write = |path: PathBuf, bytes: &[u8]| fs::write(path, bytes).expect("the directory is writable");
    fs::create_dir_all(directory.join("part")).expect("the directory is writable");
    let large: Vec<u8> =
        (0..1_500_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    write(directory.join("part/large"), &large);
    write(directory.join("name"), name.as_bytes());
    let sums = Command::new("sha256sum").args(["part/large", "name"]).current_dir(directory).output();
    write(directory.join(SUMS), &sums.expect("sha256sum can be started").stdout);
}
