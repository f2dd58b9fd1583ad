//! The rounds of a gang: each time that its tasks were started together, how long they ran, and what ended it.
//!
//! A round is read off the events of the tasks: `reserved` names its number, `started` (of old workers, `claimed`) starts it, and the first
//! `stop_requested` or `unreserved` says why it ended.

use jiff::Timestamp;
use muster_protocol::Event;
use serde_json::Value;

use crate::output::quantities::{printable, span};

/// One start of all tasks together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) number: u64,
    /// Tasks that were placed for it, and those of them that were started.
    pub(crate) tasks: u32,
    pub(crate) claimed: u32,
    pub(crate) done: u32,
    pub(crate) placed_at: Timestamp,
    /// When the last of its tasks was started.
    pub(crate) started_at: Option<Timestamp>,
    /// When its tasks were told to stop, or the last of them ended.
    pub(crate) ended_at: Option<Timestamp>,
    /// When its last process was gone.
    pub(crate) gone_at: Option<Timestamp>,
    /// What ended it.
    pub(crate) end: Option<String>,
    /// Whether it was ended before its tasks were done.
    broken_off: bool,
    /// Whether no task waits for the others to be prepared.
    assembled: bool,
}

impl Round {
    fn new(number: u64, at: Timestamp) -> Self {
        Self {
            number,
            tasks: 0,
            claimed: 0,
            done: 0,
            placed_at: at,
            started_at: None,
            ended_at: None,
            gone_at: None,
            end: None,
            broken_off: false,
            assembled: true,
        }
    }

    pub(crate) fn is_broken_off(&self) -> bool {
        self.broken_off
    }

    fn stop(&mut self, at: Timestamp, why: String) {
        if self.end.is_none() {
            (self.ended_at, self.end) = (Some(at), Some(why));
        }
    }

    /// What the event means for the round that is under way.
    fn take(&mut self, event: &Event) {
        let text = |key: &str| event.data.get(key).and_then(Value::as_str).map(str::to_owned);
        match event.kind.as_str() {
            "reserved" => self.tasks += 1,
            "claimed" => {
                self.claimed += 1;
                self.started_at = Some(event.at).filter(|_| self.assembled);
            }
            // What is prepared starts later, with all others.
            "prepared" => (self.assembled, self.started_at) = (false, None),
            "started" => {
                self.assembled = true;
                self.started_at = Some(event.at);
            }
            "stop_requested" | "unreserved" => {
                self.broken_off |= self.end.is_none();
                self.stop(event.at, text("reason").unwrap_or_else(|| "stopped".to_owned()));
            }
            "drained" | "finished" => self.gone_at = Some(event.at),
            "done" => {
                self.done += 1;
                self.gone_at = Some(event.at);
                if self.done >= self.tasks {
                    self.stop(event.at, "done".to_owned());
                }
            }
            // Without a stop before it, such an end is all that there is to say.
            "failed" | "cancelled" if self.claimed < self.tasks || self.done < self.claimed => {
                let why = text("reason").unwrap_or_else(|| event.kind.clone());
                self.stop(event.at, why);
            }
            _ => {}
        }
    }
}

/// The number of the round that the event begins or belongs to, if it says so.
fn number(event: &Event) -> Option<u64> {
    let named = event.data.get("round").and_then(Value::as_u64);
    named.filter(|_| event.kind == "reserved")
}

/// All rounds that the events tell of, the oldest first.
pub(crate) fn rounds(events: &[Event]) -> Vec<Round> {
    let mut found: Vec<Round> = Vec::new();
    for event in events {
        if let Some(number) = number(event)
            && found.last().is_none_or(|round| round.number < number)
        {
            found.push(Round::new(number, event.at));
        }
        if let Some(round) = found.last_mut() {
            round.take(event);
        }
    }
    found
}

/// Says what people who follow a gang want to know: when a round ends before its time, and when the next begins.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    round: Option<Round>,
    /// The number of the round whose end was told.
    told: Option<u64>,
}

impl Narrator {
    /// The next event; gives the sentence that it is worth.
    pub(crate) fn hear(&mut self, event: &Event) -> Option<String> {
        let mut sentence = None;
        if let Some(number) = number(event)
            && self.round.as_ref().is_none_or(|round| round.number < number)
        {
            sentence = (number > 1).then(|| format!("round {number} starts"));
            self.round = Some(Round::new(number, event.at));
        }
        let round = self.round.as_mut()?;
        let open = round.end.is_none();
        round.take(event);
        if open && round.is_broken_off() && self.told != Some(round.number) {
            self.told = Some(round.number);
            sentence = Some(ended(round, event.at));
        }
        sentence
    }
}

fn ended(round: &Round, at: Timestamp) -> String {
    let why = printable(round.end.as_deref().unwrap_or_default());
    let number = round.number;
    match round.started_at {
        Some(started) if round.claimed >= round.tasks => {
            format!("round {number} stops after {}: {why}", span(started, at))
        }
        _ => format!("round {number} ends before all tasks were started: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of two tasks at seconds after eight.
    fn events(lines: &[(&str, u32, u32, &str)]) -> Vec<Event> {
        let one = |(id, (kind, task, second, data)): (usize, &(&str, u32, u32, &str))| {
            let text = format!(
                r#"{{"id":{id},"at":"2026-05-05T08:00:{second:02}Z","type":"{kind}","job_id":"job-{task}","data":{data}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        lines.iter().enumerate().map(one).collect()
    }

    fn history() -> Vec<Event> {
        events(&[
            ("submitted", 0, 0, "{}"),
            ("submitted", 1, 0, "{}"),
            ("reserved", 0, 1, r#"{"round":1,"size":2}"#),
            ("reserved", 1, 1, r#"{"round":1,"size":2}"#),
            ("claimed", 0, 2, "{}"),
            ("claimed", 1, 3, "{}"),
            ("stop_requested", 0, 10, r#"{"epoch":1,"reason":"rank 1 of the gang failed: exit code 7"}"#),
            ("stop_requested", 1, 10, r#"{"epoch":1,"reason":"rank 1 of the gang failed: exit code 7"}"#),
            ("drained", 1, 10, r#"{"epoch":1,"exit_code":7}"#),
            ("drained", 0, 12, r#"{"epoch":1,"exit_code":0}"#),
            ("requeued", 0, 12, "{}"),
            ("requeued", 1, 12, "{}"),
            ("reserved", 0, 13, r#"{"round":2,"size":2}"#),
            ("reserved", 1, 13, r#"{"round":2,"size":2}"#),
            ("claimed", 0, 13, "{}"),
            ("unreserved", 1, 43, r#"{"reason":"rank 1 of the gang was not taken by worker w2 in time"}"#),
            (
                "stop_requested",
                0,
                43,
                r#"{"epoch":2,"reason":"rank 1 of the gang was not taken by worker w2 in time"}"#,
            ),
            ("drained", 0, 44, r#"{"epoch":2}"#),
            ("reserved", 0, 45, r#"{"round":3,"size":2}"#),
            ("reserved", 1, 45, r#"{"round":3,"size":2}"#),
            ("claimed", 0, 45, "{}"),
            ("claimed", 1, 46, "{}"),
            ("done", 1, 50, "{}"),
            ("done", 0, 52, "{}"),
        ])
    }

    #[test]
    fn each_round_has_its_time_and_its_end() {
        let found = rounds(&history());
        let shown: Vec<String> = found
            .iter()
            .map(|round| {
                let ran = round.started_at.zip(round.ended_at).map(|(start, end)| span(start, end));
                let end = round.end.as_deref().unwrap_or("-");
                format!(
                    "{} {}/{} {} {end}",
                    round.number,
                    round.claimed,
                    round.tasks,
                    ran.unwrap_or_default()
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "1 2/2 7.0s rank 1 of the gang failed: exit code 7",
                "2 1/2 30.0s rank 1 of the gang was not taken by worker w2 in time",
                "3 2/2 6.0s done",
            ]
        );
        assert_eq!(found[0].gone_at.map(|at| at.to_string()).as_deref(), Some("2026-05-05T08:00:12Z"));
    }

    #[test]
    fn what_is_told_while_it_happens() {
        let mut narrator = Narrator::default();
        let told: Vec<String> = history().iter().filter_map(|event| narrator.hear(event)).collect();
        assert_eq!(
            told,
            [
                "round 1 stops after 7.0s: rank 1 of the gang failed: exit code 7",
                "round 2 starts",
                "round 2 ends before all tasks were started: rank 1 of the gang was not taken by worker w2 in time",
                "round 3 starts",
            ]
        );
    }

    #[test]
    fn a_round_that_is_under_way_has_no_end() {
        let found = rounds(&history()[..6]);
        assert_eq!((found.len(), found[0].end.clone(), found[0].claimed), (1, None, 2));
        assert!(rounds(&[]).is_empty());
    }
}
