//! Small numbers that stand for things on a board. They are positions, and mean nothing on another board.

/// A job or a gang.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId(pub u32);

/// What units run on: a worker of the live scheduler, a machine of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u32);

/// A requirement of one task, known to the board.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeId(pub u32);

impl UnitId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl QueueId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ShapeId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}
