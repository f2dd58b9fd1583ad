//! What jobs, which run as the same user, and other users must not see of a worker.

use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};

/// Nothing for anybody but the owner.
const OURS_ALONE: Mode = Mode::S_IRWXG.union(Mode::S_IRWXO);

/// Call it first in a program that is a worker: from now on its files are for its own user only, and jobs of that
/// user cannot read its environment and its memory. Returns the umask that jobs are to have
/// ([`WorkerConfig::job_umask`](crate::WorkerConfig)).
///
/// The price: only root can attach a debugger to it, and it leaves no core dump. Jobs of root see everything.
pub fn keep_private() -> u32 {
    hide();
    umask(OURS_ALONE).bits()
}

/// Lets no process of the same user look into this one.
pub(crate) fn hide() {
    // Every kernel in use knows this; one that does not hides nothing, as it always was.
    let _ = prctl::set_dumpable(false);
}
