//! Tiles in shared memory: operands, the rings and resident tiles that they lie in, and what fits. The bounds of shared memory and of registers are
//! facts of the placement: what breaks them is refused.
use super::maps::{self, Boxes};
use super::pipeline::{Schedule, Unit, Value};
use super::results;
use super::steps::{Steps, base};
use super::{ROOM, ROWS, Shape};
use crate::emit::part::Refusal;
use crate::graph::{NodeId, Op};
use crate::predicate::Atom;
use std::collections::HashSet;

/// A tile of an input in shared memory: the left operand of products, the right one, or what comes to registers.
pub struct Operand {
    pub node: NodeId,
    pub name: String,
    pub boxes: Boxes,
    /// Elements: rows of a box, columns in whole blocks.
    pub rows: u32,
    pub columns: u32,
    /// The contracted dim is in the rows: of a right operand, of some product.
    pub mn: bool,
    pub is_left: bool,
    /// Products read it where it lies.
    pub multiplied: bool,
    pub streamed: bool,
    /// Where a box starts along columns and rows.
    pub column_at: String,
    pub row_at: String,
    pub dtype: &'static str,
    pub value: Value,
    /// The loop's dim is in the rows of a right operand, which may lie beyond what the loop may read.
    pub cleared: bool,
}

impl Operand {
    pub fn bytes(&self) -> u32 {
        self.rows * self.columns * 2
    }
    pub fn blocks(&self) -> u32 {
        self.columns / maps::COLUMNS
    }
}

/// Operands that the same units of the schedule read first: they share slots and barriers.
pub struct Ring {
    pub operands: Vec<usize>,
    pub name: String,
    /// Groups of products, or the reading of a tile to registers: one for each of the steps that are laid out as one, in their order.
    pub readers: Vec<usize>,
    /// Who reads a slot again, later, and gives it back.
    pub again: Option<usize>,
    pub bytes: u32,
}

pub struct Memory {
    pub stages: u32,
    pub residents: u32,
    /// Bytes from the start, where blocks for results are if there are any: of each resident tile, of each ring, of the barriers, of all.
    pub resident: Vec<(usize, u32)>,
    pub rings: Vec<u32>,
    pub barriers: u32,
    pub total: u32,
}

impl Steps<'_> {
    /// Whether some tiles of the loop need no mask: not where its mask is a union of intervals.
    pub fn has_whole_tiles(&self) -> bool {
        self.l.domain.is_empty() || !self.bounds.held.is_empty()
    }
    /// The streamed operands by the group that reads them.
    pub fn rings(&self, schedule: &Schedule) -> Result<Vec<Ring>, Refusal> {
        let mut rings: Vec<Ring> = vec![];
        for (i, o) in self.operands.iter().enumerate().filter(|(_, o)| o.streamed) {
            let reads = |unit: &Unit| match unit {
                Unit::Group(all) => all.iter().any(|p| self.operations[*p].reads.contains(&o.value)),
                Unit::Single(one) => self.operations[*one].reads.contains(&o.value),
                Unit::Retire(_) => false,
            };
            let mut readers: Vec<usize> = (0..schedule.units.len()).filter(|u| reads(&schedule.units[*u])).collect();
            // products of the start of a step and of its rest
            let later = |pair: &[usize]| schedule.is_shifted(pair[1]) && !schedule.is_shifted(pair[0]);
            let again = if self.unrolled == 1 && readers.len() == 2 && o.multiplied && later(&readers) { readers.pop() } else { None };
            if readers.len() != self.unrolled as usize {
                return Err(format!("{} is read at {} places of a step", o.name, readers.len()));
            }
            match rings.iter_mut().find(|r| r.readers == readers && (r.again.is_none() || again.is_none() || r.again == again)) {
                Some(r) => {
                    r.operands.push(i);
                    r.again = r.again.or(again);
                    r.bytes += o.bytes()
                }
                None => rings.push(Ring {
                    operands: vec![i],
                    name: base(self.cx, o.name.trim_end_matches("_tile").trim_end_matches("_shared")),
                    readers,
                    again,
                    bytes: o.bytes(),
                }),
            }
        }
        Ok(rings)
    }
    /// Two tiles of what is resident where that leaves two stages, and as many stages as fit.
    pub fn memory(&self, rings: &[Ring], results: &[results::Result], shape: Shape) -> Result<Memory, Refusal> {
        let staged = results.iter().any(|r| r.stage == results::Stage::Blocks);
        let blocks = if staged { 2 * shape.warpgroups * results::BLOCK_BYTES } else { 0 };
        let stage: u32 = rings.iter().map(|r| r.bytes).sum();
        let resident_tiles = || self.operands.iter().filter(|o| !o.streamed);
        let tiles: u32 = resident_tiles().map(Operand::bytes).sum();
        // two barriers for each slot; for the next tile two slots, and its number
        let barriers = |residents: u32, stages: u32| 16 * (residents * resident_tiles().count() as u32 + stages * rings.len() as u32) + 48;
        let stages = |residents: u32| {
            let left = ROOM.saturating_sub(blocks + residents * tiles + barriers(residents, 0));
            shape.stages.min(left / (stage + barriers(0, 1) - barriers(0, 0)).max(1))
        };
        let Some(residents) = (1..=shape.residents).rev().find(|r| stages(*r) >= 2) else {
            return Err(format!("two stages of {stage} bytes beside {} do not fit in shared memory", blocks + tiles));
        };
        let stages = stages(residents);
        let mut at = blocks;
        let (mut resident, mut starts) = (vec![], vec![0; rings.len()]);
        for (i, o) in self.operands.iter().enumerate().filter(|(_, o)| !o.streamed) {
            resident.push((i, at));
            at += residents * o.bytes()
        }
        // a row of columns needs no more than its own alignment
        let mut order: Vec<usize> = (0..rings.len()).collect();
        order.sort_by_key(|r| !rings[*r].bytes.is_multiple_of(1024));
        for r in order {
            starts[r] = at;
            at += stages * rings[r].bytes
        }
        Ok(Memory { stages, residents, resident, rings: starts, barriers: at, total: at + barriers(residents, stages) + 1024 })
    }
    /// Accumulators, packed operands, what is held beside them, and some 30 more registers for addresses, states, a mask's limit and what is at hand; a
    /// mask of several comparisons takes more.
    pub fn check_registers(&self, shape: Shape) -> Result<(), Refusal> {
        let (most, _) = shape.registers();
        let g = &self.cx.part.graph;
        let predicates = self.l.domain.iter().flatten().filter_map(|p| if let Op::Predicate(id) = g.op(*p) { Some(g.predicate(*id)) } else { None });
        let atoms: HashSet<&Atom> = predicates.flat_map(|p| p.clauses.iter().flatten()).collect();
        // what is no comparison of columns with a limit is computed for each element
        let others = (atoms.len() as u32).saturating_sub(self.limits);
        let mask = 4 * self.limits.saturating_sub(1) + if self.has_whole_tiles() { 0 } else { 16 + 32 * others };
        let all = self.accumulators + self.packed_registers + self.held + 30 + mask;
        match all <= most {
            true => Ok(()),
            false => Err(format!("{all} registers, a thread has {most}")),
        }
    }
    /// The part of a left operand's tile that is a warpgroup's: bytes from one to the next.
    pub fn between_warpgroups(&self, o: &Operand) -> u32 {
        if o.mn { o.rows * 128 } else { ROWS * 128 }
    }
}
