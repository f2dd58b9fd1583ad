//! Changes to what was asked for, while the job still waits.

use std::sync::Arc;

use crate::job::Job;
use crate::phase::Status;
use crate::rejection::Rejection;
use crate::resources::Resources;
use crate::spec::{JobSpec, ShapeId};
use crate::time::Span;

/// What to change; `None` leaves it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    pub priority: Option<i32>,
    pub resources: Option<Resources>,
    pub max_attempts: Option<u32>,
    /// `Some(None)` takes the limit away.
    pub timeout: Option<Option<Span>>,
}

/// Changes a waiting job and says in words what was changed; an empty text means nothing.
pub fn edit(job: &mut Job, edit: &Edit) -> Result<String, Rejection> {
    match job.status() {
        Status::Pending | Status::Delayed | Status::Held | Status::Blocked => {}
        status if status.is_terminal() => return Err(Rejection::AlreadyEnded { status }),
        status => return Err(Rejection::NotWaiting { status }),
    }
    let mut spec: JobSpec = job.spec.as_ref().clone();
    let mut what = Vec::new();
    if let Some(priority) = edit.priority.filter(|priority| *priority != spec.priority) {
        what.push(format!("priority {} to {priority}", spec.priority));
        spec.priority = priority;
    }
    if let Some(resources) =
        edit.resources.as_ref().filter(|resources| spec.resources.as_ref() != Some(resources))
    {
        what.push("resources".to_owned());
        spec.resources = Some(resources.clone());
    }
    if let Some(max_attempts) = edit.max_attempts.filter(|max| *max != spec.max_attempts) {
        // A waiting job must have an attempt left.
        let max_attempts = max_attempts.max(job.attempts + 1);
        what.push(format!("max_retries {} to {max_attempts}", spec.max_attempts));
        spec.max_attempts = max_attempts;
    }
    if let Some(timeout) = edit.timeout.filter(|timeout| *timeout != spec.timeout) {
        what.push("timeout".to_owned());
        spec.timeout = timeout;
    }
    if !what.is_empty() {
        job.shape = ShapeId::of(&spec.shape());
        job.spec = Arc::new(spec);
    }
    Ok(what.join(", "))
}
