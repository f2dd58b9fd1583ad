//! One agent at a time: whoever connects last is the agent, and gets everything the keeper knows.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::clock::boottime_ns;
use super::message::{FromKeeper, MAX_FRAME_BYTES, ToKeeper, decode_frame, encode_frame};
use super::outputs::OutputNames;
use super::slots;
use super::table::Table;

/// While jobs queue up here nobody waits for a report, and fewer frames leave more of the processor to
/// the jobs: half as many reports cost scheduler and worker a fifth less for each short job. What is claimed ahead
/// suffices for five times as long. With an empty queue every message leaves at once.
const GATHER: Duration = Duration::from_millis(10);

/// Makes this connection the current one and serves it until it ends or another takes its place.
pub(super) fn serve(table: &Arc<Table>, names: &Arc<OutputNames>, stream: UnixStream) -> io::Result<()> {
    let connection = {
        let mut state = table.lock();
        state.connections += 1;
        state.agent = Some(state.connections);
        state.outbox.clear();
        state.greeted = false;
        // The writer of the connection before this one notices that it is no longer current.
        table.outbox.notify_all();
        state.connections
    };
    let writer_stream = stream.try_clone()?;
    let shared = Arc::clone(table);
    std::thread::Builder::new()
        .name("writer".into())
        .spawn(move || write(&shared, connection, writer_stream))?;
    let end = read(table, names, connection, stream);
    leave(table, connection);
    end
}

fn leave(table: &Table, connection: u64) {
    let mut state = table.lock();
    if state.agent == Some(connection) {
        state.agent = None;
        state.agent_gone_at_ns = boottime_ns();
        table.outbox.notify_all();
        table.timer.notify_one();
    }
}

fn read(
    table: &Arc<Table>,
    names: &Arc<OutputNames>,
    connection: u64,
    mut stream: UnixStream,
) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        match stream.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(io::Error::other("the agent sent a frame that is too long"));
        }
        let mut frame = vec![0; length];
        stream.read_exact(&mut frame)?;
        table.apply(connection, decode_frame::<ToKeeper>(&frame)?);
        slots::grow(table, names)?;
    }
}

fn write(table: &Table, connection: u64, mut stream: UnixStream) {
    while let Some((messages, saturated)) = next_messages(table, connection) {
        if !messages.is_empty() {
            let sent = encode_frame(&messages).and_then(|frame| stream.write_all(&frame));
            if sent.is_err() {
                break;
            }
        }
        if saturated {
            std::thread::sleep(GATHER);
        }
    }
    // The reader of this connection, if it still runs, sees the end and goes too.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Waits for something to say; `None` when the connection is no longer the current one.
fn next_messages(table: &Table, connection: u64) -> Option<(Vec<FromKeeper>, bool)> {
    let mut state = table.lock();
    loop {
        if state.agent != Some(connection) {
            return None;
        }
        // What happens before the greeting is part of the answer to it.
        if state.greeted && !state.outbox.is_empty() {
            let saturated = !state.queue.is_empty();
            return Some((state.take_outbox(saturated), saturated));
        }
        state = table.outbox.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Isolation;
    use super::super::message::{Key, Phase, StartSpec};
    use super::*;

    #[test]
    fn what_ends_before_the_greeting_is_part_of_the_answer() {
        let root = tempfile::tempdir().unwrap();
        let names = Arc::new(OutputNames::new(root.path()).unwrap());
        let table = Arc::new(Table::default());
        let key = Key { job_id: "job".into(), lease: 1 };
        table.lock().agent = Some(1);
        table.lock().connections = 1;
        let spec = json!({"key": key, "argv": [], "env": [], "cwd": "/", "grace_ms": 0, "note": ""});
        let spec: StartSpec = serde_json::from_value(spec).unwrap();
        table.apply(1, vec![ToKeeper::Start(Box::new(spec))]);

        let (mut agent, stream) = UnixStream::pair().unwrap();
        let shared = Arc::clone(&table);
        let server = std::thread::spawn(move || serve(&shared, &names, stream));
        while table.lock().agent != Some(2) {
            std::thread::yield_now();
        }
        table.apply(2, vec![ToKeeper::Withdraw { key }]);
        assert!(!table.lock().outbox.is_empty(), "there is something to say, and nobody to listen");

        let isolation = Isolation::default();
        let hello = ToKeeper::Hello {
            slots: 1,
            env: Vec::new(),
            linger_ms: 0,
            umask: None,
            isolation,
            no_new_privileges: false,
        };
        agent.write_all(&encode_frame(&[hello]).unwrap()).unwrap();
        let mut length = [0; 4];
        agent.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_le_bytes(length) as usize];
        agent.read_exact(&mut frame).unwrap();
        let messages: Vec<FromKeeper> = decode_frame(&frame).unwrap();
        let [FromKeeper::Welcome { jobs, .. }] = messages.as_slice() else { panic!("{messages:?}") };
        assert!(matches!(jobs[0].phase, Phase::Ended(_)), "{jobs:?}");
        drop(agent);
        server.join().unwrap().unwrap();
    }
}
