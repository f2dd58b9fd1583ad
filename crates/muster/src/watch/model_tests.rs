//! What keys and answers do, without a screen.

use jiff::Timestamp;
use muster_protocol::{LogStream, SetKind, Why};
use ratatui::crossterm::event::KeyCode;

use super::model::{Arrangement, Link, Message, Mode, Model, Order, Request};
use super::panes::Pane;
use super::view::pictures::{model, now, press, snapshot};

fn type_line(model: &mut Model, line: &str) {
    press(model, KeyCode::Char('/'));
    for letter in line.chars() {
        press(model, KeyCode::Char(letter));
    }
}

#[test]
fn a_filter_asks_the_scheduler_anew_and_hides_what_does_not_match() {
    let mut model = model(Arrangement::Watch);
    type_line(&mut model, "queue:night lon");
    let asked = press(&mut model, KeyCode::Enter);
    let [Request::Refresh(wanted)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(wanted.filter.queue.as_deref(), Some("night"));
    model.update(Message::Read(Box::new(snapshot())));
    assert_eq!((model.len(Pane::Running), model.len(Pane::Waiting)), (1, 0));
    assert!(matches!(press(&mut model, KeyCode::Esc).as_slice(), [Request::Refresh(_)]));
    assert_eq!(model.filter_line, "");
}

#[test]
fn a_filter_that_cannot_be_understood_stays_open() {
    let mut model = model(Arrangement::Watch);
    type_line(&mut model, "colour:red");
    assert!(press(&mut model, KeyCode::Enter).is_empty());
    assert!(matches!(model.mode, Mode::Filter { .. }));
    assert!(model.notice.as_ref().unwrap().0.contains("colour"));
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.mode, Mode::Lists);
}

#[test]
fn the_selected_waiting_job_is_explained_by_itself() {
    let mut model = model(Arrangement::Watch);
    let asked = press(&mut model, KeyCode::Tab);
    assert_eq!(asked, [Request::Explain { job_id: "job-cccccccc-1".into(), asked: false }]);
    let why: Why = serde_json::from_str(
        r#"{"id":"job-cccccccc-1","status":"pending","reasons":[{"code":"x","message":"no worker has room"}]}"#,
    )
    .unwrap();
    model.update(Message::Explained { why: Box::new(why.clone()), asked: false });
    assert_eq!(model.mode, Mode::Lists, "an answer that was not asked for opens nothing");
    press(&mut model, KeyCode::Down);
    assert_eq!(model.why, None, "what is said belongs to the selected job");
    model.update(Message::Explained { why: Box::new(why), asked: true });
    assert!(matches!(&model.mode, Mode::Text { lines, .. } if lines[1].contains("no worker has room")));
}

#[test]
fn a_worker_or_queue_opens_as_a_filter() {
    let mut model = model(Arrangement::Watch);
    press(&mut model, KeyCode::Char('5'));
    assert!(matches!(press(&mut model, KeyCode::Enter).as_slice(), [Request::Refresh(_)]));
    assert_eq!((model.filter_line.as_str(), model.focus), ("worker:gpu-01", Pane::Running));
    press(&mut model, KeyCode::Char('6'));
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.filter_line, "queue:night");
}

#[test]
fn jobs_that_have_not_run_or_have_ended_are_left_alone() {
    let mut model = model(Arrangement::Watch);
    press(&mut model, KeyCode::Char('2'));
    assert!(press(&mut model, KeyCode::Enter).is_empty());
    assert!(model.notice.as_ref().unwrap().0.contains("has not started"));
    press(&mut model, KeyCode::Char('3'));
    assert!(press(&mut model, KeyCode::Char('c')).is_empty());
    assert_eq!(model.mode, Mode::Lists);
}

#[test]
fn a_reader_who_follows_is_taken_to_the_next_attempt() {
    let mut model = model(Arrangement::Watch);
    press(&mut model, KeyCode::Enter);
    let next = || Message::Attempt { job_id: "job-aaaaaaaa-1".into(), number: 2 };
    let asked = model.update(next());
    assert_eq!(asked, [Request::OpenLogs { job_id: "job-aaaaaaaa-1".into(), attempt: 2 }]);
    assert!(model.update(next()).is_empty(), "once");
    let asked = press(&mut model, KeyCode::Char('['));
    assert_eq!(asked, [Request::OpenLogs { job_id: "job-aaaaaaaa-1".into(), attempt: 1 }]);
    assert!(model.update(Message::Attempt { job_id: "job-aaaaaaaa-1".into(), number: 3 }).is_empty());
    assert!(model.notice.as_ref().unwrap().0.contains("attempt 3"));
}

#[test]
fn the_time_of_the_first_silence_is_kept() {
    let mut model = Model::new("http://h", Arrangement::Watch, Order::Ran, now());
    model.update(Message::Away("a".into()));
    let later: Timestamp = "2026-05-05T08:35:00Z".parse().unwrap();
    model.update(Message::Tick(later));
    model.update(Message::Away("b".into()));
    assert_eq!(model.link, Link::Away { since: now(), why: "b".into() });
}

#[test]
fn remarks_go_away_by_themselves() {
    let mut model = model(Arrangement::Watch);
    model.update(Message::Notice("1 job cancelled".into()));
    model.update(Message::Tick("2026-05-05T08:34:07Z".parse().unwrap()));
    assert!(model.notice.is_some());
    model.update(Message::Tick("2026-05-05T08:34:08Z".parse().unwrap()));
    assert!(model.notice.is_none());
}

#[test]
fn what_is_read_is_bounded() {
    let watch = model(Arrangement::Watch).wanted();
    assert!(watch.running <= 1000 && watch.waiting <= 1000 && watch.ended <= 1000);
    let top = model(Arrangement::Top).wanted();
    assert_eq!((top.waiting, top.ended), (0, 0), "what is not shown is not read");
}

#[test]
fn a_pipeline_is_opened_described_and_cancelled_as_a_whole() {
    let mut model = model(Arrangement::Watch);
    press(&mut model, KeyCode::Char('4'));
    let id = "pipe-12345678-1".to_owned();
    let kind = SetKind::Pipeline;
    assert_eq!(press(&mut model, KeyCode::Char('d')), [Request::DescribeSet { kind, id: id.clone() }]);
    assert!(press(&mut model, KeyCode::Char('c')).is_empty());
    assert!(matches!(&model.mode, Mode::Confirm { question, .. } if question[0].contains("whole pipeline")));
    assert_eq!(press(&mut model, KeyCode::Char('y')), [Request::CancelSet { kind, id: id.clone() }]);
    assert!(matches!(press(&mut model, KeyCode::Enter).as_slice(), [Request::Refresh(_)]));
    assert_eq!(model.filter.pipeline, Some(id));
}

#[test]
fn output_that_does_not_begin_at_the_beginning_says_so() {
    let mut model = model(Arrangement::Watch);
    press(&mut model, KeyCode::Enter);
    for (offset, is_tail) in [(0, false), (90, false)] {
        let stream = LogStream::Stdout;
        let bytes = b"x\n".to_vec();
        model.update(Message::Output { job_id: "job-aaaaaaaa-1".into(), attempt: 1, stream, offset, bytes });
        assert!(matches!(&model.mode, Mode::Logs(view) if view.is_tail == is_tail));
    }
    let stream = LogStream::Stderr;
    let bytes = b"x\n".to_vec();
    model.update(Message::Output { job_id: "job-aaaaaaaa-1".into(), attempt: 1, stream, offset: 7, bytes });
    assert!(matches!(&model.mode, Mode::Logs(view) if view.is_tail));
}
