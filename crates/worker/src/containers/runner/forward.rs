//! The signals of a runner on their way into its container.
//!
//! Guarantee: what asks a job to stop reaches the whole process group of the job, also where the engine's init hands a signal to the
//! first process alone.

use std::sync::Arc;

use bollard::Docker;
use bollard::query_parameters::KillContainerOptionsBuilder;
use nix::libc;
use tokio::time::timeout;

use super::attach::resize;
use super::watch::{REQUEST, first_process};
use crate::containers::own_terminal::OwnTerminal;
use crate::containers::signals::Signals;
use crate::keeper::groups_below;

/// Where signals go.
pub(super) struct Target {
    pub(super) client: Docker,
    pub(super) id: String,
    pub(super) terminal: Option<Arc<OwnTerminal>>,
    /// The init of Podman knows nothing of groups: they are signalled from here, where this process may.
    pub(super) groups_from_here: bool,
}

impl Target {
    /// Passes signals on, in their order. A container that has ended takes none.
    pub(super) async fn forward(self, mut signals: Signals) {
        if let Some(terminal) = &self.terminal {
            resize(&self.client, &self.id, terminal).await;
        }
        loop {
            let number = signals.next().await;
            if let (libc::SIGWINCH, Some(terminal)) = (number, &self.terminal) {
                resize(&self.client, &self.id, terminal).await;
                continue;
            }
            if self.groups_from_here && self.signal_groups(number).await {
                continue;
            }
            let options = KillContainerOptionsBuilder::new().signal(&number.to_string()).build();
            let _ = timeout(REQUEST, self.client.kill_container(&self.id, Some(options))).await;
        }
    }

    /// Signals the groups of what the init has started. Says whether there was one that took it.
    async fn signal_groups(&self, number: i32) -> bool {
        let Some(init) = first_process(self.client.clone(), self.id.clone()).await else { return false };
        let mut is_taken = false;
        for group in groups_below(init) {
            #[expect(unsafe_code, reason = "the safe wrapper does not know real-time signals")]
            // SAFETY: the call takes two integers and touches no memory of ours.
            let sent = unsafe { libc::kill(-group, number) };
            is_taken |= sent == 0;
        }
        is_taken
    }
}
