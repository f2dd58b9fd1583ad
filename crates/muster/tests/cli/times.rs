//! Jobs that take too long, values that a job hands on to the next, and times as people write and read them.

use muster_tests::Http;
use serde_json::{Value, json};

use crate::harness::{Finished, Started, Up};

/// New York by its rule, so that no database of time zones is needed.
const NEW_YORK: &str = "EST5EDT,M3.2.0,M11.1.0";

fn in_zone(up: &Up, zone: &str, arguments: &[&str]) -> Finished {
    let mut command = up.command(arguments);
    command.env("TZ", zone);
    Started::spawn(command).finish()
}

fn post(up: &Up, target: &str, body: &Value) -> Value {
    let port = up.url.rsplit(':').next().unwrap().parse().unwrap();
    Http::new(port).post_json(target, body).json()
}

#[test]
fn a_run_that_takes_too_long_exits_like_timeout() {
    let up = Up::start();
    let finished = up.run(&["run", "--timeout", "1s", "--", "sleep", "60"]);
    assert_eq!(finished.code(), 124, "{finished:?}");
    assert!(finished.stderr.contains("timeout"), "{finished:?}");
    let job = up.show(&up.only_job());
    assert_eq!(
        (&job["status"], &job["reason"], &job["attempts"]),
        (&json!("failed"), &json!("timeout"), &json!(1))
    );
}

#[test]
fn a_timeout_costs_an_attempt_and_is_never_a_success() {
    let up = Up::start();
    let script = "trap 'exit 0' INT; echo attempt; while :; do sleep 0.02; done";
    let request =
        json!({ "command": script, "timeout_seconds": 0.5, "max_retries": 2, "stop_signal": "SIGINT" });
    let id = post(&up, "/jobs", &request)["id"].as_str().unwrap().to_owned();
    let waited = up.run(&["wait", &id]);
    assert_eq!(waited.code(), 124, "{waited:?}");
    assert!(waited.stdout.contains("(timeout)") || waited.stderr.contains("(timeout)"), "{waited:?}");
    let job = up.show(&id);
    assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("timeout")));
    assert_eq!((&job["attempts"], &job["exit_code"]), (&json!(2), &json!(0)));
}

#[test]
fn outputs_reach_the_environment_of_those_that_need_them() {
    let up = Up::start();
    let batch = json!([
        { "ref": "load", "name": "load-data", "command": "echo rows=5 >> $MUSTER_OUTPUT; echo path=/a b >> $MUSTER_OUTPUT" },
        { "ref": "fit", "name": "fit", "command": "echo '{\"loss\": 0.25, \"best\": {\"epoch\": 3}}' > $MUSTER_OUTPUT" },
        { "command": "echo $MUSTER_NEEDS_LOAD_DATA_ROWS:$MUSTER_NEEDS_LOAD_DATA_PATH; \
            echo $MUSTER_NEEDS_FIT_LOSS:$MUSTER_NEEDS_FIT_BEST", "depends_on": ["load", "fit"] },
    ]);
    let answer = post(&up, "/jobs/batch", &batch);
    let id = |index: usize| answer[index]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    up.run(&["wait", &id(2)]).ok();
    assert_eq!(up.run(&["logs", &id(2)]).ok().stdout, "5:/a b\n0.25:{\"epoch\":3}\n");
    assert_eq!(up.show(&id(0))["outputs"], json!({ "rows": "5", "path": "/a b" }));
    assert_eq!(up.show(&id(1))["outputs"], json!({ "loss": 0.25, "best": { "epoch": 3 } }));
}

#[test]
fn outputs_that_are_none_are_explained_where_people_look() {
    let up = Up::start();
    let finished = up.run(&["run", "--", "sh", "-c", "echo just words > $MUSTER_OUTPUT"]).ok();
    assert!(finished.stderr.contains("MUSTER_OUTPUT") && finished.stderr.contains("line 1"), "{finished:?}");
    assert_eq!(up.show(&up.only_job())["outputs"], Value::Null);
}

#[test]
fn a_time_without_a_zone_is_local_and_that_is_said() {
    let up = Up::start();
    let submit = |zone: &str, options: &[&str]| {
        let arguments = [&["submit"], options, &["--", "true"]].concat();
        let finished = in_zone(&up, zone, &arguments).ok();
        (up.show(&finished.line()), finished.stderr)
    };
    for text in ["2036-12-01 08:00", "2036-12-01T08:00", "2036-12-01 08:00:00"] {
        let (job, said) = submit(NEW_YORK, &["--not-before", text]);
        assert_eq!(job["not_before"], json!("2036-12-01T13:00:00Z"), "{text}");
        assert!(said.contains(text) && said.contains("2036-12-01T08:00:00-05:00"), "{said}");
    }
    let (job, said) = submit(NEW_YORK, &["--hold", "--deadline", "2036-07-01"]);
    assert_eq!(job["deadline"], json!("2036-07-01T04:00:00Z"));
    assert!(said.contains("--deadline"), "{said}");
    let (job, said) = submit(NEW_YORK, &["--utc", "--not-before", "2036-12-01 08:00"]);
    assert_eq!(job["not_before"], json!("2036-12-01T08:00:00Z"));
    assert!(said.contains("UTC"), "{said}");
    let (job, said) = submit(NEW_YORK, &["--not-before", "2036-12-01T08:00:00+01:00"]);
    assert_eq!((&job["not_before"], said.as_str()), (&json!("2036-12-01T07:00:00Z"), ""));
    // The clocks go from 02:00 to 03:00, and from 02:00 back to 01:00.
    let (job, said) = submit(NEW_YORK, &["--not-before", "2036-03-09 02:30"]);
    assert_eq!(job["not_before"], json!("2036-03-09T07:30:00Z"));
    assert!(said.contains("skip"), "{said}");
    let (job, said) = submit(NEW_YORK, &["--not-before", "2036-11-02 01:30"]);
    assert_eq!(job["not_before"], json!("2036-11-02T05:30:00Z"));
    assert!(said.contains("twice"), "{said}");
}

#[test]
fn screens_show_local_time_and_json_does_not() {
    let up = Up::start();
    let start = ["submit", "--not-before", "2036-12-01T13:00:00Z", "--", "true"];
    let id = in_zone(&up, NEW_YORK, &start).ok().line();
    let here = |arguments: &[&str]| in_zone(&up, NEW_YORK, arguments).ok().stdout;
    assert!(here(&["show", &id]).contains("not before 2036-12-01 08:00:00 EST"), "{}", here(&["show", &id]));
    let utc = here(&["--utc", "show", &id]);
    assert!(utc.contains("not before 2036-12-01 13:00:00 UTC"), "{utc}");
    let mut command = up.command(&["show", &id]);
    command.env("TZ", NEW_YORK).env("MUSTER_UTC", "1");
    let by_variable = Started::spawn(command).finish().ok().stdout;
    assert!(by_variable.contains("not before 2036-12-01 13:00:00 UTC"), "{by_variable}");

    up.run(&["run", "--name", "ended", "--", "echo", "hello"]).ok();
    let ended = here(&["ls", "--name", "ended", "--quiet"]).trim_end().to_owned();
    let submitted: jiff::Timestamp = up.show(&ended)["created_at"].as_str().unwrap().parse().unwrap();
    let zone = jiff::tz::TimeZone::posix(NEW_YORK).unwrap();
    let local = submitted.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let utc = submitted.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let columns = ["ls", "--name", "ended", "--columns", "submitted"];
    assert!(here(&columns).contains(&local), "{local} in {}", here(&columns));
    assert!(here(&[&columns[..], &["--utc"]].concat()).contains(&utc));
    assert!(here(&["events", &ended]).contains(&local), "{local} in {}", here(&["events", &ended]));
    let lines = here(&["logs", "-t", &ended]);
    assert!(lines.contains("-05:00 hello") || lines.contains("-04:00 hello"), "{lines}");
    assert!(here(&["--utc", "logs", "-t", &ended]).contains("Z hello"));
    assert!(here(&["show", &ended, "--json"]).contains("Z\""));
    assert!(!here(&["show", &ended, "--json"]).contains("-05:00"));
    // Everything is newer than an hour ago, also where the clock shows another hour.
    let hour_ago = submitted - jiff::SignedDuration::from_hours(1);
    let zone = jiff::tz::TimeZone::posix(NEW_YORK).unwrap();
    let since = hour_ago.to_zoned(zone).strftime("%Y-%m-%d %H:%M").to_string();
    assert!(here(&["ls", "--since", &since, "--quiet"]).contains(&ended));
    let later = (submitted + jiff::SignedDuration::from_hours(1)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    assert_eq!(here(&["ls", "--since", &later, "--quiet"]), "");
}
