//! `[[pools]]` of `muster.toml`: workers with certain tags whose jobs follow a policy of their own.
//!
//! Guarantee: pools that cannot be meant are refused before anything starts; what a pool does not say is as under
//! `[policy]`.

use std::collections::BTreeSet;
use std::str::FromStr;

use muster_domain::PoolAt;
use muster_planner::policy::{Policies, Policy, Pool};

use super::knobs::Knob;

/// The pools of the file, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSettings {
    /// With the policies of nobody in particular.
    pools: Policies,
    /// What each says about its policy.
    knobs: Vec<Vec<Knob>>,
}

impl PoolSettings {
    /// Reads the value of the key `pools`.
    pub(super) fn read(value: &toml::Value) -> Result<Self, String> {
        let form = || "pools are written as [[pools]], each with a name, tags and a policy".to_owned();
        let (mut pools, mut knobs) = (Vec::new(), Vec::new());
        for value in value.as_array().ok_or_else(form)? {
            let (pool, own) = pool(value.as_table().ok_or_else(form)?)?;
            pools.push(pool);
            knobs.push(own);
        }
        let pools = Policies::new(Policy::default(), pools).map_err(|wrong| wrong.to_string())?;
        Ok(Self { pools, knobs })
    }

    /// All policies, where `usual` is that of `[policy]`.
    pub(super) fn over(&self, usual: Policy) -> Policies {
        self.pools.with_policies(usual, |PoolAt(at)| {
            let own = self.knobs.get(usize::from(at)).map(Vec::as_slice).unwrap_or_default();
            own.iter().fold(usual, |policy, knob| knob.set(policy))
        })
    }
}

fn pool(values: &toml::Table) -> Result<(Pool, Vec<Knob>), String> {
    let name = match values.get("name") {
        Some(toml::Value::String(name)) => name.clone(),
        Some(_) => return Err("the name of a pool must be a text".to_owned()),
        None => return Err("a pool needs a name".to_owned()),
    };
    let mut tags = BTreeSet::new();
    let mut knobs = Vec::new();
    for (key, value) in values {
        match key.as_str() {
            "name" => {}
            "tags" => {
                let wrong = || format!("pool {name:?}: tags must be a list of texts");
                tags = self::tags(value).ok_or_else(wrong)?;
            }
            key => knobs.push(knob(key, value).map_err(|problem| format!("pool {name:?}: {problem}"))?),
        }
    }
    Ok((Pool { name, tags, policy: Policy::default() }, knobs))
}

fn tags(value: &toml::Value) -> Option<BTreeSet<String>> {
    let text = |tag: &toml::Value| tag.as_str().filter(|tag| !tag.is_empty()).map(str::to_owned);
    value.as_array()?.iter().map(text).collect()
}

/// The name of the policy is called `policy` here, since the pool has a name itself.
fn knob(key: &str, value: &toml::Value) -> Result<Knob, String> {
    let text = super::file::text(value).ok_or_else(|| format!("{key} must be a text or a number"))?;
    Knob::read(if key == "policy" { "name" } else { key }, &text)
}

/// Of the text of a whole file.
impl FromStr for PoolSettings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let file: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        file.get("pools").map_or_else(|| Self::read(&toml::Value::Array(Vec::new())), Self::read)
    }
}
