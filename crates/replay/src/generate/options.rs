//! What is to be made, as it is written on a command line: `hpc:jobs=1000,seed=7`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Which model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Rigid parallel jobs of a computing centre, after Lublin and Feitelson.
    Hpc,
    /// Training on GPUs, with many gangs.
    Ml,
}

/// A workload to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generator {
    pub kind: Kind,
    pub jobs: u32,
    pub seed: u64,
    /// Processors for `hpc`, nodes of eight GPUs for `ml`.
    pub size: u32,
    /// What the jobs ask for while they come, as a share of the cluster.
    pub load: f64,
    pub users: u32,
    pub queues: u32,
    /// The share of jobs with more than one GPU, for `ml`.
    pub gangs: f64,
}

/// A description that makes no workload.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GenerateError {
    #[error("{0:?} is no kind of workload; write hpc or ml, for example hpc:jobs=1000,seed=7")]
    Kind(String),
    #[error(
        "{0:?} is no option of a workload; there are jobs, seed, size, load, users, queues and gangs, each as NAME=VALUE"
    )]
    Option(String),
    #[error("{name} is {value:?}; write {wanted}")]
    Value { name: &'static str, value: String, wanted: &'static str },
}

impl Generator {
    /// The usual one of its kind.
    pub fn new(kind: Kind) -> Self {
        let (size, users, queues) = match kind {
            Kind::Hpc => (128, 40, 4),
            Kind::Ml => (32, 60, 8),
        };
        Self { kind, jobs: 1000, seed: 1, size, load: 0.9, users, queues, gangs: 0.5 }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), GenerateError> {
        match name {
            "jobs" => self.jobs = number("jobs", value, 1, 20_000_000)?,
            "size" => self.size = number("size", value, 1, 1_000_000)?,
            "users" => self.users = number("users", value, 1, 100_000)?,
            "queues" => self.queues = number("queues", value, 1, 10_000)?,
            "seed" => {
                self.seed = value.parse().map_err(|_| wrong("seed", value, "a whole number"))?;
            }
            "load" => self.load = fraction("load", value, 0.01, 10.0)?,
            "gangs" => self.gangs = fraction("gangs", value, 0.0, 1.0)?,
            _ => return Err(GenerateError::Option(name.to_owned())),
        }
        Ok(())
    }
}

fn wrong(name: &'static str, value: &str, wanted: &'static str) -> GenerateError {
    GenerateError::Value { name, value: value.to_owned(), wanted }
}

fn number(name: &'static str, value: &str, least: u32, most: u32) -> Result<u32, GenerateError> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| wrong(name, value, "a whole number from 1 on, and not beyond reason"))
}

fn fraction(name: &'static str, value: &str, least: f64, most: f64) -> Result<f64, GenerateError> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| wrong(name, value, "a share such as 0.9"))
}

impl fmt::Display for Generator {
    /// All that the jobs depend on, so that they can be made again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs, seed, size, load, users, queues, gangs, .. } = self;
        let kind = match self.kind {
            Kind::Hpc => "hpc",
            Kind::Ml => "ml",
        };
        write!(f, "{kind}:jobs={jobs},seed={seed},size={size},load={load},users={users},queues={queues}")?;
        if self.kind == Kind::Ml { write!(f, ",gangs={gangs}") } else { Ok(()) }
    }
}

impl FromStr for Generator {
    type Err = GenerateError;

    fn from_str(text: &str) -> Result<Self, GenerateError> {
        let (kind, options) = text.split_once(':').unwrap_or((text, ""));
        let mut generator = match kind {
            "hpc" => Self::new(Kind::Hpc),
            "ml" => Self::new(Kind::Ml),
            _ => return Err(GenerateError::Kind(kind.to_owned())),
        };
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (name, value) =
                option.split_once('=').ok_or_else(|| GenerateError::Option(option.to_owned()))?;
            generator.set(name.trim(), value.trim())?;
        }
        Ok(generator)
    }
}
