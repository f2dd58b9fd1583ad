//! The cluster as a whole, as the wire shows it.

use muster_domain as domain;
use muster_protocol as wire;

use super::resources;
use super::why::{reason, start};
use crate::clock::to_wire;

pub(crate) fn overview(found: &domain::Overview) -> wire::Overview {
    wire::Overview {
        total: resources(&found.total),
        free: resources(&found.free),
        stranded: resources(&found.stranded),
        waiting: found.waiting.iter().map(cause).collect(),
        not_looked_at: found.not_looked_at,
        line: found.line.iter().map(in_line).collect(),
        kept: found.kept.iter().map(kept).collect(),
        pools: found.pools.iter().map(pool).collect(),
        more_pools: found.more_pools,
        idle: found.idle.iter().map(idle).collect(),
    }
}

fn cause(cause: &domain::WaitingCause) -> wire::WaitingCause {
    wire::WaitingCause {
        code: cause.code.to_owned(),
        jobs: cause.jobs,
        gangs: cause.gangs,
        example: cause.example.as_ref().map(|(unit, _)| unit.to_string()),
        reason: cause.example.as_ref().map(|(_, why)| reason(why)),
    }
}

fn in_line(one: &domain::InLine) -> wire::InLine {
    wire::InLine {
        id: one.unit.to_string(),
        queue: one.queue.as_ref().map(ToString::to_string),
        user: one.user.clone(),
        priority: one.priority,
        tasks: one.tasks,
        needs: resources(&one.need),
        reasons: one.reasons.iter().map(reason).collect(),
        start: one.start.map(start),
    }
}

fn kept(kept: &domain::KeptFor) -> wire::KeptFor {
    wire::KeptFor {
        id: kept.unit.to_string(),
        workers: kept.workers,
        resources: resources(&kept.resources),
        until: kept.until.map(to_wire),
    }
}

fn pool(pool: &domain::Pool) -> wire::Pool {
    let count = |(free, workers): &(u64, u32)| wire::FreeCount { free: *free, workers: *workers };
    wire::Pool {
        has: resources(&pool.has),
        workers: pool.workers,
        active: pool.active,
        free: resources(&pool.free),
        stranded: resources(&pool.stranded),
        by_free: pool.by_free.iter().map(count).collect(),
    }
}

fn idle(room: &domain::IdleRoom) -> wire::IdleRoom {
    wire::IdleRoom {
        code: room.why.code().to_owned(),
        message: room.why.to_string(),
        unit: room.why.unit().map(|unit| unit.to_string()),
        workers: room.workers,
        free: resources(&room.free),
    }
}
