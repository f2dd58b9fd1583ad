//! Who may speak for a job: the lease in force, the worker that holds it, or anybody where the original
//! rule lets the status alone decide. Once a holder has lost the job without a word, nobody but it or the holder can
//! be meant by a report without a name, so such a report counts only where both are one worker.

use super::Caller;
use crate::job::{Job, ReportKind};
use crate::rejection::Rejection;

/// How far a caller may speak for a job.
pub(super) enum Authority {
    /// It named the lease in force, or is the worker that holds the job.
    Proven,
    /// It said nothing about itself; the status alone decides.
    Anonymous,
    /// It repeats the report that ended its lease.
    Repeats,
}

/// Decides whether `caller` speaks for `job`. `report` is `None` for heartbeats, which never repeat.
pub(super) fn authority(
    job: &Job,
    caller: &Caller,
    report: Option<ReportKind>,
) -> Result<Authority, Rejection> {
    let held = job.is_leased();
    if let Some(given) = caller.lease {
        if held && given == job.lease {
            return match (&caller.worker, job.worker()) {
                // Numbers of leases can be guessed; a name that is proven cannot be another's.
                (Some(named), Some(holder)) if named != holder => {
                    Err(Rejection::NotHolder { given: named.clone(), holder: Some(holder.clone()) })
                }
                _ => Ok(Authority::Proven),
            };
        }
        return match job.closed {
            Some(closed) if closed.lease == given && report.is_some() && closed.by == report => {
                Ok(Authority::Repeats)
            }
            Some(closed) if closed.lease == given && closed.by.is_some() => {
                Err(Rejection::ContradictsReport { given })
            }
            _ => Err(Rejection::StaleLease { given, current: job.lease }),
        };
    }
    if !held {
        return Err(Rejection::NotRunning { status: job.status() });
    }
    match &caller.worker {
        None if job.has_other_strays() => Err(Rejection::AnonymousAfterLoss { current: job.lease }),
        None => Ok(Authority::Anonymous),
        Some(worker) if job.worker() == Some(worker) => Ok(Authority::Proven),
        Some(worker) => Err(Rejection::NotHolder { given: worker.clone(), holder: job.worker().cloned() }),
    }
}
