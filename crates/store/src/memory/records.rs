//! Records and the audit log in memory.

use muster_domain::Timestamp;

use super::data::Data;
use crate::records::{AuditFilter, AuditLine, Chosen, Record, RecordKind};

pub(super) fn select(data: &Data, kind: RecordKind, chosen: Chosen<'_>) -> Vec<Record> {
    let wanted = |key: &String| match chosen {
        Chosen::All => true,
        Chosen::Of(keys) | Chosen::Locked(keys) => keys.contains(key),
    };
    let found = data.records.iter().filter(|((found, key), _)| *found == kind && wanted(key));
    found.map(|((_, key), facts)| Record { kind, key: key.clone(), facts: facts.clone() }).collect()
}

pub(super) fn append_audit(data: &mut Data, lines: &[AuditLine]) {
    for line in lines {
        data.last_audit += 1;
        let seq = data.last_audit;
        data.audit.insert(seq, AuditLine { seq, ..line.clone() });
    }
}

pub(super) fn audit(data: &Data, filter: &AuditFilter) -> Vec<AuditLine> {
    let lines = data.audit.range(..filter.before_seq.unwrap_or(u64::MAX)).rev().map(|(_, line)| line);
    lines
        .filter(|line| filter.since.is_none_or(|since| line.at >= since))
        .take(filter.limit)
        .cloned()
        .collect()
}

pub(super) fn forget_audit(data: &mut Data, before: Timestamp, limit: usize) -> u32 {
    let oldest = data.audit.values().take(limit);
    let gone: Vec<u64> = oldest.filter(|line| line.at < before).map(|line| line.seq).collect();
    for seq in &gone {
        data.audit.remove(seq);
    }
    u32::try_from(gone.len()).unwrap_or(u32::MAX)
}
