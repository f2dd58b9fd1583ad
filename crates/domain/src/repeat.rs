//! Whether a submission repeats an earlier one: an idempotency key names one job, not any job.

use crate::spec::{GangMembership, JobSpec};

/// The fields, by their names in the API, in which `again` differs from what was submitted first under the same key.
///
/// Dependencies are resolved elsewhere. Times are not compared: clients make them of delays, anew for each submit.
pub fn differences(first: &JobSpec, again: &JobSpec) -> Vec<&'static str> {
    let JobSpec {
        program,
        name,
        env,
        working_dir,
        resources,
        tags,
        exclusive,
        queue,
        priority,
        max_attempts,
        if_unmet,
        unique,
        grace,
        stop_signal,
        timeout,
        concurrency,
        retry,
        gang,
        launch,
        exit0_finishes,
        signal_scope,
        private,
        user,
        fixed,
        on_disconnect,
        output: _,
        secrets: _,
        container: _,
        inputs: _,
        pty: _,
        depends_on: _,
        rules: _,
        not_before: _,
        deadline: _,
        idempotency_key: _,
        gangs: _,
        proven_user: _,
    } = again;
    let fields = [
        ("command", *program != first.program),
        ("name", *name != first.name),
        ("env", *env != first.env),
        ("working_dir", *working_dir != first.working_dir),
        ("resources", *resources != first.resources),
        ("tags", *tags != first.tags),
        ("exclusive", *exclusive != first.exclusive),
        ("queue_name", *queue != first.queue),
        ("priority", *priority != first.priority),
        ("max_retries", *max_attempts != first.max_attempts),
        ("if_unmet", *if_unmet != first.if_unmet),
        ("unique", *unique != first.unique),
        ("grace_seconds", *grace != first.grace),
        ("stop_signal", *stop_signal != first.stop_signal),
        ("timeout_seconds", *timeout != first.timeout),
        ("concurrency", *concurrency != first.concurrency),
        ("retry", *retry != first.retry),
        ("gang_size", gang.as_ref().map(terms) != first.gang.as_ref().map(terms)),
        ("launch", *launch != first.launch),
        ("on_preempt_exit0", *exit0_finishes != first.exit0_finishes),
        ("signal_scope", *signal_scope != first.signal_scope),
        ("private", *private != first.private),
        ("user", *user != first.user),
        ("preemptible", *fixed != first.fixed),
        ("on_disconnect", *on_disconnect != first.on_disconnect),
    ];
    let fields = fields.into_iter().chain(what_it_finds(first, again));
    fields.filter(|(_, differs)| *differs).map(|(field, _)| field).collect()
}

/// What the process finds around it. The image is a field of its own.
fn what_it_finds(first: &JobSpec, again: &JobSpec) -> [(&'static str, bool); 7] {
    let files = |spec: &JobSpec| {
        let output = spec.output.as_deref().cloned().unwrap_or_default();
        (output.stdout, output.stderr, output.append)
    };
    let kept = |spec: &JobSpec| spec.output.as_deref().cloned().unwrap_or_default().artifacts;
    let image = |spec: &JobSpec| spec.container.as_ref().map(|container| container.image.clone());
    [
        ("stdout_path", files(again) != files(first)),
        ("artifacts", kept(again) != kept(first)),
        ("secrets", again.secrets != first.secrets),
        ("image", image(again) != image(first)),
        ("container", again.container != first.container),
        ("inputs", !ask_for_the_same(first, again)),
        ("pty", again.pty != first.pty),
    ]
}

fn ask_for_the_same(first: &JobSpec, again: &JobSpec) -> bool {
    match (&first.inputs, &again.inputs) {
        (Some(first), Some(again)) => again.asks_as(first),
        (first, again) => first.is_none() && again.is_none(),
    }
}

/// What was asked of a gang; its id is made anew for each submit.
fn terms(gang: &GangMembership) -> impl PartialEq + use<> {
    (gang.size, gang.min, gang.per_worker, gang.keep_done, gang.topology.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn what_differs_is_named() {
        let first = JobSpec::shell("a");
        assert!(differences(&first, &first).is_empty());
        let again = JobSpec { priority: 5, name: Some("n".to_owned()), ..JobSpec::shell("b") };
        assert_eq!(differences(&first, &again), ["command", "name", "priority"]);
        let later = JobSpec { not_before: Some(Timestamp::from_micros(5)), ..first.clone() };
        assert!(differences(&first, &later).is_empty());
    }
}
