//! Pictures of whole screens, drawn into memory.

use jiff::Timestamp;
use muster_protocol::LogStream;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::{Theme, render};
use crate::watch::input;
use crate::watch::model::{Arrangement, Message, Model, Order, Request};
use crate::watch::snapshot::{JobList, Snapshot};

const PLAIN: Theme = Theme { colour: false, unicode: true };

pub(crate) fn now() -> Timestamp {
    "2026-05-05T08:34:00Z".parse().unwrap()
}

fn job(text: &str) -> muster_protocol::Job {
    let mut fields: serde_json::Value = serde_json::from_str(text).unwrap();
    for (key, value) in [("command", "sh work.sh"), ("created_at", "2026-05-05T08:33:00Z")] {
        if fields.get(key).is_none() {
            fields[key] = value.into();
        }
    }
    for key in ["max_retries", "attempts"] {
        if fields.get(key).is_none() {
            fields[key] = 1.into();
        }
    }
    serde_json::from_value(fields).unwrap()
}

/// A small cluster with something of everything.
pub(crate) fn snapshot() -> Snapshot {
    let list = |jobs: Vec<muster_protocol::Job>| JobList { jobs, more: false };
    Snapshot {
        summary: serde_json::from_str(
            r#"{"jobs":{"running":2,"pending":2,"blocked":1},"pending_by_queue":{"":1,"night":1}}"#,
        )
        .unwrap(),
        workers: serde_json::from_str(
            r#"[{"id":"gpu-01","exec_addr":"","resources":{"cpus":8,"memory_mb":16384,"gpus":2},"status":"active",
                 "last_heartbeat":"2026-05-05T08:33:58Z","registered_at":"2026-05-05T08:00:00Z","slots":4,
                 "used":{"cpus":4,"memory_mb":4096,"gpus":2},"running":2},
                {"id":"gpu-02","exec_addr":"","resources":{"cpus":8},"status":"active",
                 "last_heartbeat":"2026-05-05T08:33:58Z","registered_at":"2026-05-05T08:00:00Z",
                 "quarantine":{"since":"2026-05-05T08:30:00Z","probe_at":"2026-05-05T08:40:00Z",
                               "evidence":["job-9 exit code 127","job-8 exit code 127"]}},
                {"id":"old-01","exec_addr":"","resources":{"cpus":8},"status":"offline",
                 "last_heartbeat":"2026-05-05T07:33:58Z","registered_at":"2026-05-05T07:00:00Z"}]"#,
        )
        .unwrap(),
        running: list(vec![
            job(
                r#"{"id":"job-aaaaaaaa-1","name":"short","status":"running","worker_id":"gpu-01",
                    "started_at":"2026-05-05T08:33:30Z","resources":{"cpus":3}}"#,
            ),
            job(
                r#"{"id":"job-bbbbbbbb-1","name":"long","status":"running","worker_id":"gpu-01",
                    "started_at":"2026-05-05T08:00:00Z","resources":{"cpus":1,"memory_mb":4096}}"#,
            ),
        ]),
        waiting: list(vec![
            job(r#"{"id":"job-cccccccc-1","name":"next","status":"pending","attempts":0,"queue_name":"night","priority":7}"#),
            job(r#"{"id":"job-dddddddd-1","status":"pending","attempts":0,"held":"by an operator"}"#),
            job(r#"{"id":"job-eeeeeeee-1","status":"blocked","attempts":0}"#),
        ]),
        ended: list(vec![job(
            r#"{"id":"job-ffffffff-1","name":"broken","status":"failed","exit_code":3,"reason":"exit code 3",
                "started_at":"2026-05-05T08:33:10Z","done_at":"2026-05-05T08:33:12Z"}"#,
        )]),
        queues: serde_json::from_str(
            r#"[{"name":"","queued":1,"running":2},
                {"name":"night","queued":1,"paused":true,"max_queued":4,"rate":{"starts":5,"seconds":60}}]"#,
        )
        .unwrap(),
        sets: serde_json::from_str(
            r#"[{"id":"pipe-12345678-1","kind":"pipeline","name":"nightly","status":"running","size":40,
                 "created_at":"2026-05-05T08:00:00Z","counts":{"done":9,"failed":1,"running":2,"pending":28}}]"#,
        )
        .unwrap(),
    }
}

pub(crate) fn model(arrangement: Arrangement) -> Model {
    let mut model = Model::new("http://localhost:8080", arrangement, Order::Ran, now());
    model.update(Message::Read(Box::new(snapshot())));
    model
}

/// Presses a key as a person would, and gives what it asks for.
pub(crate) fn press(model: &mut Model, code: KeyCode) -> Vec<Request> {
    let key = KeyEvent::new(code, KeyModifiers::NONE);
    input::action(key, &model.mode).map(|action| model.update(Message::Key(action))).unwrap_or_default()
}

fn terminal(model: &mut Model, width: u16, height: u16, theme: Theme) -> Terminal<TestBackend> {
    model.update(Message::Resized { width, height });
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| render(frame, model, theme)).unwrap();
    terminal
}

fn picture(model: &mut Model, width: u16, height: u16) -> String {
    let terminal = terminal(model, width, height, PLAIN);
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_shows(picture: &str, texts: &[&str]) {
    for text in texts {
        assert!(picture.contains(text), "{text:?} is not in\n{picture}");
    }
}

#[test]
fn everything_is_on_a_small_screen() {
    let expected = "
 muster watch  http://localhost:8080  live
 2 running  3 waiting (1 blocked)  2/3 workers  cpus ██░░░░░░ 4/16
─ 1 Running 2 ──────────────────────────────────────────────────────────────────
  ID            NAME   WORKER      RAN  COMMAND
▸ job-aaaaaaaa  short  gpu-01      30s  sh work.sh
  job-bbbbbbbb  long   gpu-01   34m00s  sh work.sh
─ 2 Waiting 3 ──────────────────────────────────────────────────────────────────
  job-cccccccc  next  pending    night     7   60s  sh work.sh
  job-dddddddd  -     held       -         0   60s  by an operator
  job-eeeeeeee  -     blocked    -         0   60s  sh work.sh
─ 3 Ended 1, 1 failed ──────────────────────────────────────────────────────────
  job-ffffffff  broken  failed        2.0s   48s  exit code 3
─ 4 Pipelines and arrays 1 ─────────────────────────────────────────────────────
  pipe-1234567  nightly  running    ███░░░░░░░░░ 10/40               1   34m
─ 5 Workers 3 ──────────────────────────────────────────────────────────────────
  gpu-01  active      ███░░░ 2/4    ███░░░ 4/8     ██░░░░ 4G/16G       2s
  gpu-02  quarantine  0             ░░░░░░ 0/8     -                   2s
  old-01  offline     0             ░░░░░░ 0/8     -                  60m
─ 6 Queues 2 ───────────────────────────────────────────────────────────────────
  (default)  open          2  1
  night      paused        0  ██░░░░ 1/4            5 starts in 60s
 job-aaaaaaaa-1 · short · 3 cpus · started 2026-05-05 08:33:30 UTC
 sh work.sh
 Tab list  Enter logs  w why  d details  c cancel  / filter  ? help  q quit";
    let shown = picture(&mut model(Arrangement::Watch), 80, 24);
    assert_eq!(shown, expected.trim_start_matches('\n'), "\n{shown}");
}

#[test]
fn any_size_can_be_drawn() {
    for arrangement in [Arrangement::Watch, Arrangement::Top] {
        for (width, height) in [(1, 1), (3, 2), (10, 4), (20, 7), (40, 12), (80, 24), (151, 40), (300, 90)] {
            for code in [KeyCode::Tab, KeyCode::Char('c'), KeyCode::Char('?'), KeyCode::Enter] {
                let mut model = model(arrangement);
                press(&mut model, code);
                picture(&mut model, width, height);
            }
        }
    }
}

#[test]
fn a_wide_screen_has_two_columns() {
    let shown = picture(&mut model(Arrangement::Watch), 180, 30);
    let line = shown.lines().find(|line| line.contains("1 Running")).unwrap();
    assert!(line.contains("4 Pipelines"), "{shown}");
}

#[test]
fn top_puts_the_longest_first_and_the_order_can_change() {
    let mut model = model(Arrangement::Top);
    let place = |shown: &str, name: &str| shown.lines().position(|line| line.contains(name)).unwrap();
    let by_time = picture(&mut model, 100, 24);
    assert_shows(
        &by_time,
        &["muster top", "Running 2 by time", "gpu-02", "34m00s      1      4G     -  sh work.sh"],
    );
    assert!(place(&by_time, "long") < place(&by_time, "short"), "{by_time}");
    assert!(matches!(press(&mut model, KeyCode::Char('o')).as_slice(), [Request::Refresh(_)]));
    model.update(Message::Read(Box::new(snapshot())));
    let by_cpus = picture(&mut model, 100, 24);
    assert!(place(&by_cpus, "short") < place(&by_cpus, "long"), "{by_cpus}");
}

#[test]
fn a_scheduler_that_is_away_is_said_and_the_old_picture_stays() {
    let mut model = model(Arrangement::Watch);
    model.update(Message::Away("connection refused".into()));
    model.update(Message::Tick("2026-05-05T08:34:09Z".parse().unwrap()));
    let shown = picture(&mut model, 100, 24);
    assert_shows(&shown, &["no answer for 9s", "connection refused", "from before", "job-aaaaaaaa"]);
    model.update(Message::Read(Box::new(snapshot())));
    assert_shows(&picture(&mut model, 80, 24), &["live", "the scheduler is back"]);
}

#[test]
fn nothing_is_cancelled_without_a_yes() {
    let mut model = model(Arrangement::Watch);
    assert!(press(&mut model, KeyCode::Char('c')).is_empty());
    assert_shows(&picture(&mut model, 80, 24), &["Cancel job-aaaaaaaa?", "y cancels it"]);
    assert!(press(&mut model, KeyCode::Enter).is_empty());
    assert_shows(&picture(&mut model, 80, 24), &["nothing was cancelled"]);
    press(&mut model, KeyCode::Char('c'));
    let asked = press(&mut model, KeyCode::Char('y'));
    assert_eq!(asked, [Request::Cancel { job_id: "job-aaaaaaaa-1".into() }]);
}

#[test]
fn the_evidence_against_a_worker_is_shown() {
    let mut model = model(Arrangement::Watch);
    press(&mut model, KeyCode::Char('5'));
    press(&mut model, KeyCode::Down);
    assert_shows(&picture(&mut model, 100, 24), &["in quarantine until", "job-9 exit code 127"]);
}

#[test]
fn output_is_shown_over_the_whole_screen() {
    let mut model = model(Arrangement::Watch);
    let asked = press(&mut model, KeyCode::Enter);
    assert_eq!(asked, [Request::OpenLogs { job_id: "job-aaaaaaaa-1".into(), attempt: 1 }]);
    assert_shows(&picture(&mut model, 80, 10), &["no output yet", "following"]);
    for (stream, bytes) in [(LogStream::Stdout, "one\ntwo\n"), (LogStream::Stderr, "wrong\n")] {
        let bytes = bytes.as_bytes().to_vec();
        model.update(Message::Output {
            job_id: "job-aaaaaaaa-1".into(),
            attempt: 1,
            stream,
            offset: 0,
            bytes,
        });
    }
    assert_shows(&picture(&mut model, 80, 10), &["\n one\n two\n!wrong\n", "line 3 of 3"]);
    let other = Message::Output {
        job_id: "job-x".into(),
        attempt: 1,
        stream: LogStream::Stdout,
        offset: 0,
        bytes: b"alien\n".into(),
    };
    model.update(other);
    assert!(!picture(&mut model, 80, 10).contains("alien"), "late output of another job");
    assert_eq!(press(&mut model, KeyCode::Char('q')), [Request::CloseLogs]);
}

#[test]
fn without_colours_there_are_none_and_the_selection_is_reversed() {
    for (theme, coloured) in [(PLAIN, false), (Theme { colour: true, ..PLAIN }, true)] {
        let terminal = terminal(&mut model(Arrangement::Watch), 80, 24, theme);
        let cells = terminal.backend().buffer().content();
        assert_eq!(cells.iter().any(|cell| cell.fg != Color::Reset), coloured);
        assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
    }
}

#[test]
fn without_unicode_there_are_only_plain_signs() {
    let mut model = model(Arrangement::Watch);
    press(&mut model, KeyCode::Char('?'));
    let terminal = terminal(&mut model, 80, 24, Theme { colour: false, unicode: false });
    let cells = terminal.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.symbol().is_ascii()));
}
