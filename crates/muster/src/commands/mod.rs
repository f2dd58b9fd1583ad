//! One file per verb. Each takes its arguments and the settings, and returns the exit code.

pub(crate) mod array;
pub(crate) mod change;
pub(crate) mod checkpoint;
pub(crate) mod completions;
pub(crate) mod done;
pub(crate) mod edit;
pub(crate) mod events;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod notice;
pub(crate) mod pipeline_file;
pub(crate) mod queue;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod sets;
pub(crate) mod show;
pub(crate) mod submit;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod watch;
pub(crate) mod webhook;
pub(crate) mod why;
pub(crate) mod workers;
