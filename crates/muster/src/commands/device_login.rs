//! `muster login --oidc`: somebody enters a code in a browser, which may run on another machine.
//!
//! Guarantees: it ends when the code does; it asks no more often than the provider wants; a scheduler that cannot be reached
//! for a moment does not end it.

use std::time::Duration;

use anyhow::bail;
use muster_client::{Client, ClientError};
use muster_protocol::DeviceLogin;
use tokio::time::{Instant, sleep};

use crate::output::note;
use crate::output::quantities::printable;

/// How much less often to ask when the provider says so.
const SLOWER: Duration = Duration::from_secs(5);

/// The provider has answered, but not as it should.
const BAD_GATEWAY: u16 = 502;

/// Logs in, and returns what the session shows.
pub(super) async fn log_in(client: &Client) -> anyhow::Result<String> {
    let login = client.begin_device_login().await?;
    show(&login);
    let expires = Instant::now() + Duration::from_secs(u64::from(login.expires_in));
    let mut pause = Duration::from_secs(u64::from(login.interval.max(1)));
    let mut complained = false;
    loop {
        sleep(pause).await;
        if Instant::now() >= expires {
            bail!("the code {} has expired: run `muster login` again", printable(&login.user_code));
        }
        match client.device_login(&login.handle).await {
            Ok(progress) => {
                if let Some(session) = progress.session {
                    return Ok(session.token);
                }
                if progress.slow_down {
                    pause += SLOWER;
                }
            }
            Err(error) if is_passing(&error) => {
                if !complained {
                    note(&format!("{error}; trying on until the code expires"));
                }
                complained = true;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn show(login: &DeviceLogin) {
    let minutes = login.expires_in.div_ceil(60);
    let (address, code) = (printable(&login.verification_uri), printable(&login.user_code));
    note(&format!("open {address} in a browser and enter the code {code}, which is good for {minutes} min"));
    if let Some(complete) = &login.verification_uri_complete {
        note(&format!("or open {}, which has the code in it", printable(complete)));
    }
}

/// An answer that says what is wrong with the login itself is final.
fn is_passing(error: &ClientError) -> bool {
    error.is_transient() && error.status().is_none_or(|status| status.as_u16() != BAD_GATEWAY)
}
