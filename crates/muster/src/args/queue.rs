//! `muster queue`: limits, quotas and the places of queues.

use std::str::FromStr;

use clap::{Args, Subcommand};
use muster_protocol::{Quota, RateLimit};

use super::amounts;

const EXAMPLES: &str = "\
Examples:
  muster queue ls
  muster queue pause nightly
  muster queue rm nigthly
  muster queue set nightly --max-queued 10000 --rate 10/1m
  muster queue set research --parent lab --nominal gpus=32,cpus=512 --borrow gpus=8
  muster queue set research --lend gpus=16 --weight 2 --max-running-per-user 20
  muster queue set research --submitters ann,bob --admins carl --viewers ann,vera";

/// `muster queue`.
#[derive(Debug, Clone, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    pub(crate) action: QueueAction,
}

/// What can be done with queues.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum QueueAction {
    /// List the queues as a tree with what each has and uses
    #[command(visible_alias = "list")]
    Ls,
    /// Show one queue
    Show {
        #[arg(value_name = "QUEUE")]
        name: String,
    },
    /// Change the limits, the quota or the place of a queue
    Set(Box<QueueSetArgs>),
    /// Start nothing more of a queue; what runs goes on
    Pause {
        #[arg(value_name = "QUEUE")]
        name: String,
    },
    /// Start jobs of a queue again
    Resume {
        #[arg(value_name = "QUEUE")]
        name: String,
    },
    /// Forget a queue that has no unfinished jobs and no queues below it
    Rm {
        #[arg(value_name = "QUEUE")]
        name: String,
    },
}

/// `muster queue set`.
#[derive(Debug, Clone, Args)]
pub(crate) struct QueueSetArgs {
    #[arg(value_name = "QUEUE")]
    pub(crate) name: String,
    /// How many jobs may wait, or none for no limit
    #[arg(long, value_name = "N|none", value_parser = count::<u64>)]
    pub(crate) max_queued: Option<Limit<u64>>,
    /// How many jobs may start in which time, such as 10/1m, or none for no limit
    #[arg(long, value_name = "N/TIME|none", value_parser = rate)]
    pub(crate) rate: Option<Limit<RateLimit>>,
    /// The queue above it, which is made if it is not there, or none
    #[arg(long, value_name = "QUEUE|none", value_parser = parent, help_heading = "Sharing")]
    pub(crate) parent: Option<Limit<String>>,
    /// Its part when queues compete [default: 1]
    #[arg(long, value_name = "N|none", value_parser = weight, help_heading = "Sharing")]
    pub(crate) weight: Option<Limit<f64>>,
    /// What is its own, such as gpus=32,cpus=512,memory=2T, or none
    #[arg(long, value_name = "AMOUNTS|none", value_parser = quota, help_heading = "Sharing")]
    pub(crate) nominal: Option<Limit<Quota>>,
    /// The most that it may use beyond its own, or none for no limit
    #[arg(long, value_name = "AMOUNTS|none", value_parser = quota, help_heading = "Sharing")]
    pub(crate) borrow: Option<Limit<Quota>>,
    /// The most of its own that others may use, or none for no limit
    #[arg(long, value_name = "AMOUNTS|none", value_parser = quota, help_heading = "Sharing")]
    pub(crate) lend: Option<Limit<Quota>>,
    /// How many jobs of it and of the queues below it may run, or none for no limit
    #[arg(long, value_name = "N|none", value_parser = count::<u32>)]
    pub(crate) max_running: Option<Limit<u32>>,
    /// How many jobs of each user may run there, or none for no limit
    #[arg(long, value_name = "N|none", value_parser = count::<u32>)]
    pub(crate) max_running_per_user: Option<Limit<u32>>,
    /// How many jobs of each user may wait, or none for no limit
    #[arg(long, value_name = "N|none", value_parser = count::<u64>)]
    pub(crate) max_queued_per_user: Option<Limit<u64>>,
    /// The users who may submit, separated by commas, or none for everyone; without a list that of the queue above counts
    #[arg(long, value_name = "USERS|none", value_parser = users, help_heading = "Users")]
    pub(crate) submitters: Option<Limit<Vec<String>>>,
    /// The users who change the jobs of others in it and pause it, or none
    #[arg(long, value_name = "USERS|none", value_parser = users, help_heading = "Users")]
    pub(crate) admins: Option<Limit<Vec<String>>>,
    /// The users who see the jobs of others in it, or none for everyone
    #[arg(long, value_name = "USERS|none", value_parser = users, help_heading = "Users")]
    pub(crate) viewers: Option<Limit<Vec<String>>>,
}

/// A limit, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit<T> {
    None,
    At(T),
}

impl<T> Limit<T> {
    pub(crate) fn into_option(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::At(limit) => Some(limit),
        }
    }
}

fn count<T: FromStr>(text: &str) -> Result<Limit<T>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    text.parse()
        .map(Limit::At)
        .map_err(|_| format!("{text:?} is not how many may be there; write for example 10000 or none"))
}

fn parent(text: &str) -> Result<Limit<String>, String> {
    match text {
        "" => Err("a queue has a name; write none for no parent".to_owned()),
        "none" => Ok(Limit::None),
        name => Ok(Limit::At(name.to_owned())),
    }
}

/// `ann,bob`, or none.
fn users(text: &str) -> Result<Limit<Vec<String>>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err(format!("{text:?} is no list of users; write for example ann,bob or none"));
    }
    Ok(Limit::At(names))
}

fn weight(text: &str) -> Result<Limit<f64>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let weight = text.parse::<f64>().ok().filter(|weight| (0.001..=1e6).contains(weight));
    weight.map(Limit::At).ok_or_else(|| format!("{text:?} is no weight; write for example 2 or 0.5"))
}

/// `gpus=32,cpus=512,memory=2T,vram=80G,licences=5`, or none.
fn quota(text: &str) -> Result<Limit<Quota>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let mut quota = Quota::default();
    for part in text.split(',') {
        let (kind, amount) = part
            .split_once('=')
            .filter(|(kind, _)| !kind.is_empty())
            .ok_or_else(|| format!("{part:?} is no amount; write for example gpus=32,cpus=512 or none"))?;
        let whole = || {
            let wrong = |_| format!("{amount:?} is no amount of {kind}; write a whole number");
            amount.parse::<u64>().map_err(wrong)
        };
        match kind {
            "cpus" => quota.cpus = Some(amounts::cpus(amount)?),
            "memory" | "memory_mb" => quota.memory_mb = Some(amounts::memory_mb(amount)?),
            "vram" | "vram_mb" => quota.vram_mb = Some(amounts::memory_mb(amount)?),
            "gpus" => quota.gpus = Some(whole()?),
            counter => {
                quota.counters.insert(counter.to_owned(), whole()?);
            }
        }
    }
    Ok(Limit::At(quota))
}

fn rate(text: &str) -> Result<Limit<RateLimit>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let wrong = || format!("{text:?} is no rate; write for example 10/1m, 5/s or none");
    let (starts, time) = text.split_once('/').filter(|(_, time)| !time.is_empty()).ok_or_else(wrong)?;
    let starts = starts.trim().parse::<u32>().ok().filter(|starts| *starts > 0).ok_or_else(wrong)?;
    // `5/s` is five in one second.
    let time = if time.starts_with(|letter: char| letter.is_ascii_digit()) {
        time.to_owned()
    } else {
        format!("1{time}")
    };
    let seconds = muster_document::amounts::duration(&time).map(|time| time.as_secs_f64());
    let seconds = seconds.filter(|seconds| *seconds > 0.0).ok_or_else(wrong)?;
    Ok(Limit::At(RateLimit { starts, seconds }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_limits() {
        assert_eq!(rate("10/1m"), Ok(Limit::At(RateLimit { starts: 10, seconds: 60.0 })));
        assert_eq!(rate("5/s"), Ok(Limit::At(RateLimit { starts: 5, seconds: 1.0 })));
        assert_eq!(rate("none"), Ok(Limit::None));
        for text in ["", "10", "0/1m", "10/", "10/0s", "x/1m"] {
            assert!(rate(text).unwrap_err().contains("10/1m"), "{text}");
        }
        assert_eq!(count("5"), Ok(Limit::At(5_u64)));
        assert_eq!(count::<u32>("none"), Ok(Limit::None));
        assert!(count::<u64>("-1").is_err());
    }

    #[test]
    fn quotas_name_what_they_bound() {
        let Ok(Limit::At(all)) = quota("gpus=0,cpus=1.5,memory=2G,vram_mb=100,matlab=3") else { panic!() };
        assert_eq!(
            (all.gpus, all.cpus, all.memory_mb, all.vram_mb),
            (Some(0), Some(1.5), Some(2048), Some(100))
        );
        assert_eq!(all.counters.get("matlab"), Some(&3));
        assert_eq!(quota("none"), Ok(Limit::None));
        for text in ["", "gpus", "gpus=x", "=3", "cpus=-1", "gpus=1,,"] {
            assert!(quota(text).is_err(), "{text}");
        }
        assert_eq!(weight("0.5"), Ok(Limit::At(0.5)));
        assert!(weight("0").is_err() && weight("much").is_err());
        assert_eq!(parent("none"), Ok(Limit::None));
        assert_eq!(users("ann, bob"), Ok(Limit::At(vec!["ann".to_owned(), "bob".to_owned()])));
        assert_eq!(users("none"), Ok(Limit::None));
        assert!(users("").is_err() && users("ann,,bob").is_err());
    }
}
