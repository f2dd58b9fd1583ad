//! A scheduler that knows its callers: an admin made on the store, and what clients and workers show.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::http::Connection;

const ADMIN: &str = "bench";
const PASSWORD: &str = "a password for measurements";

/// What a client shows, and what a worker joins with.
#[derive(Debug, Clone)]
pub(crate) struct Pass {
    pub(crate) token: String,
    pub(crate) join: String,
}

#[derive(Debug, Deserialize)]
struct Made {
    token: String,
}

/// Makes the first account on a store that no scheduler uses yet. The command names the store.
pub(crate) fn create_admin(mut command: Command) -> Result<()> {
    command.arg("--password-stdin").arg(ADMIN);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting muster-scheduler admin create")?;
    let input = child.stdin.take().context("the input of muster-scheduler admin create")?;
    writeln!(&input, "{PASSWORD}")?;
    drop(input);
    let output = child.wait_with_output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "muster-scheduler admin create: {words}");
    Ok(())
}

/// Logs in, and makes a token for the clients and one for workers to join with.
pub(crate) fn pass(address: SocketAddr) -> Result<Pass> {
    let login = serde_json::json!({ "user": ADMIN, "password": PASSWORD });
    let session = made(&mut Connection::open(address)?, "/auth/login", &login)?;
    let mut known = Connection::open_with(address, Some(&session))?;
    let named = serde_json::json!({ "name": ADMIN });
    let token = made(&mut known, "/tokens", &named)?;
    let join = made(&mut known, "/join-tokens", &named)?;
    Ok(Pass { token, join })
}

fn made(connection: &mut Connection, path: &str, request: &serde_json::Value) -> Result<String> {
    let answer = connection.post(path, &serde_json::to_vec(request)?)?.success()?;
    Ok(serde_json::from_slice::<Made>(&answer.body)?.token)
}
