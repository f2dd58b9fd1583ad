//! How fast the keeper runs short processes, beside a bare loop of spawn and wait with as many threads.
//!
//!     cargo run --release -p muster-worker-agent --example launch_rate -- [jobs] [slots] [program] [isolation]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use muster_worker_agent::keeper::{
    AttemptPaths, FromKeeper, Isolation, IsolationMode, KEEPER_ARGUMENT, Key, Limits, StartSpec, StopManner,
    ToKeeper, choose, decode_frame, encode_frame, run_from_arguments,
};

/// As many jobs wait in the keeper as an agent would claim ahead.
const AHEAD: usize = 64;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failure> {
    if let Some(code) = run_from_arguments() {
        return Ok(code);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (jobs, slots) = (number(0, 5_000)?, number(1, 2)?);
    let program = arguments.get(2).map_or("/bin/true", String::as_str);
    let mode: IsolationMode = arguments.get(3).map_or("none", String::as_str).parse()?;
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let bare = bare_rate(jobs, slots, program);
        let keeper = keeper_rate(jobs, slots, program, mode)?;
        ratios.push(keeper / bare);
        println!("bare {bare:.0}/s  keeper {keeper:.0}/s  ratio {:.2}", keeper / bare);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.2}", ratios[ratios.len() / 2]);
    Ok(ExitCode::SUCCESS)
}

fn bare_rate(jobs: usize, slots: usize, program: &str) -> f64 {
    let left = AtomicUsize::new(jobs);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..slots {
            scope.spawn(|| {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    let mut command = Command::new(program);
                    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
                }
            });
        }
    });
    jobs as f64 / begun.elapsed().as_secs_f64()
}

fn keeper_rate(jobs: usize, slots: usize, program: &str, mode: IsolationMode) -> Result<f64, Failure> {
    let directory = std::env::temp_dir().join(format!("muster-launch-rate-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("attempts"))?;
    let isolation = Isolation { max_processes: 8_192, ..choose(mode, &directory)?.isolation };
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut keeper = Command::new("/proc/self/exe")
        .arg(KEEPER_ARGUMENT)
        .arg(&directory)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()?;
    let env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    ours.write_all(&encode_frame(&[ToKeeper::Hello {
        slots: slots as u32,
        env,
        linger_ms: 1000,
        umask: None,
        isolation,
        no_new_privileges: true,
    }])?)?;
    receive(&mut ours)?;

    let begun = Instant::now();
    let (mut sent, mut held) = (0, HashSet::new());
    let mut ended = Vec::new();
    while sent < jobs || !held.is_empty() {
        let mut messages = vec![ToKeeper::Forget { keys: std::mem::take(&mut ended) }];
        while sent < jobs && held.len() < slots + AHEAD {
            sent += 1;
            let spec = start(sent as u64, program);
            held.insert(spec.key.clone());
            messages.push(ToKeeper::Start(Box::new(spec)));
        }
        ours.write_all(&encode_frame(&messages)?)?;
        for message in receive(&mut ours)? {
            if let FromKeeper::Ended { key, .. } = message {
                held.remove(&key);
                ended.push(key);
            }
        }
    }
    let rate = jobs as f64 / begun.elapsed().as_secs_f64();
    ours.write_all(&encode_frame(&[ToKeeper::Shutdown])?)?;
    keeper.wait()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(rate)
}

fn start(lease: u64, program: &str) -> StartSpec {
    StartSpec {
        key: Key { job_id: format!("job-{lease}").into(), lease },
        argv: vec![program.to_owned()],
        env: vec![("MUSTER_LEASE".to_owned(), lease.to_string())],
        unset: Vec::new(),
        secrets: Vec::new(),
        limits: Limits::default(),
        container: None,
        hostfile: None,
        cwd: "/".to_owned(),
        stdin: None,
        grace_ms: 0,
        lease_ms: None,
        stop_signal: None,
        timeout_ms: None,
        manner: StopManner::default(),
        has_checkpoint: false,
        terminal: None,
        paths: AttemptPaths::default(),
        user: None,
        note: String::new(),
    }
}

fn receive(stream: &mut UnixStream) -> Result<Vec<FromKeeper>, Failure> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(decode_frame(&frame)?)
}
