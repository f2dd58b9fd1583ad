//! The last steps of a run, kept for the day it breaks.

use std::collections::VecDeque;
use std::fmt::Write;

use muster_domain::{Event, Timestamp};
use muster_store::{Answer, Command};

/// Steps that are kept.
const KEPT: usize = 60;

#[derive(Debug)]
struct Step {
    at: Timestamp,
    commands: Vec<Command>,
    refused: Vec<(usize, String)>,
    events: Vec<Event>,
}

/// The latest transactions.
#[derive(Debug, Default)]
pub(crate) struct Trail(VecDeque<Step>);

impl Trail {
    pub(crate) fn add(
        &mut self,
        at: Timestamp,
        commands: Vec<Command>,
        answers: &[Answer],
        events: &[Event],
    ) {
        let refused = answers.iter().enumerate();
        let refused =
            refused.filter_map(|(n, answer)| Some((n, answer.as_ref().err()?.to_string()))).collect();
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Step { at, commands, refused, events: events.to_vec() });
    }

    /// The steps as lines, the latest last.
    pub(crate) fn lines(&self) -> String {
        let mut text = String::new();
        for step in &self.0 {
            let _ = writeln!(text, "at {} us:", step.at.as_micros());
            for (position, command) in step.commands.iter().enumerate() {
                let refusal = step.refused.iter().find(|(n, _)| *n == position);
                let refusal = refusal.map_or(String::new(), |(_, why)| format!(" -- refused: {why}"));
                let _ = writeln!(text, "  {command:?}{refusal}");
            }
            for event in &step.events {
                let _ = writeln!(text, "    => {event:?}");
            }
        }
        text
    }
}
