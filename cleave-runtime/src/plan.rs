//! A plan as a user sees it: what would run for a call, and why.
use crate::device::Device;
use cleave_core::assumption::Assumption;
use cleave_core::choose::Choice;
use cleave_core::device::Target;
use cleave_core::plan::{Entry, PlanFile};
use cleave_core::tile::{Dim, Role};
use std::fmt;

/// What a call runs. Its `Display` is for people.
#[derive(Clone, Debug)]
pub struct Plan {
    pub kernel: String,
    /// The name of the algorithm: `source`, or what distinguishes it.
    pub algorithm: String,
    /// The rules that lead to it, each once, in order of use; none to the source.
    pub rules: Vec<String>,
    /// The hash of the chain of their applications: [`chain`](cleave_core::kernel::Algorithm::chain).
    pub chain: u64,
    /// What the algorithm takes for true of the inputs: `assume!` statements of the kernel.
    pub assumptions: Vec<String>,
    /// The name of the tile program.
    pub program: String,
    pub target: Target,
    /// The device's name.
    pub device: String,
    /// `(axis, extent)`.
    pub extents: Vec<(String, i64)>,
    /// The tile of each dim of each part of each launch, with its name: `(G M)`.
    pub tiles: Vec<Vec<Vec<(String, u32)>>>,
    /// In how many pieces each part of each launch is split.
    pub pieces: Vec<Vec<u32>>,
    /// Estimated by the cost model.
    pub seconds: f64,
    /// Why it was chosen: the best of the others, cheapest first.
    pub alternatives: Vec<PlanAlternative>,
}

#[derive(Clone, Debug)]
pub struct PlanAlternative {
    pub algorithm: String,
    pub program: String,
    pub pieces: u32,
    pub seconds: f64,
}

/// Alternatives that a printed plan names.
const SHOWN: usize = 6;

impl Plan {
    pub(crate) fn new(file: &PlanFile, entries: &[Entry], choice: &Choice, extents: &[i64], device: &Device) -> Plan {
        let graph = &file.kernel.graph;
        let entry = &entries[choice.entry];
        let program = &file.programs[entry.program as usize];
        let algorithm_of = |program: u32| &file.algorithms[file.programs[program as usize].algorithm as usize];
        let algorithm = |program: u32| algorithm_of(program).name.clone();
        let mut rules: Vec<String> = vec![];
        for step in algorithm_of(entry.program).derivation.iter().filter(|s| !s.assumed) {
            if !rules.contains(&step.rule) {
                rules.push(step.rule.clone())
            }
        }
        let name = |d: &Dim| {
            let names = d.axes.iter().map(|a| graph.axes.get(a.0 as usize).map_or("?", |a| &a.name)).collect::<Vec<_>>().join(" ");
            if d.axes.len() > 1 { format!("({names})") } else { names }
        };
        // a dim on chip is whole: its tile says no more than the extent
        let tiles = program.launches.iter().zip(&entry.tiles).map(|(parts, tiles)| {
            let of_part = |part: &cleave_core::tile::Part, tiles: &Vec<u32>| {
                part.dims.iter().zip(tiles).filter(|(d, _)| d.role != Role::Chip).map(|(d, t)| (name(d), *t)).collect()
            };
            parts.iter().zip(tiles).map(|(part, tiles)| of_part(part, tiles)).collect()
        });
        Plan {
            kernel: file.kernel.name.clone(),
            algorithm: algorithm(entry.program),
            rules,
            chain: algorithm_of(entry.program).chain(),
            assumptions: file.assumed(entry).map(Assumption::to_string).collect(),
            program: program.name.clone(),
            target: entry.target,
            device: device.model().name.clone(),
            extents: graph.axes.iter().zip(extents).map(|(a, n)| (a.name.clone(), *n)).collect(),
            tiles: tiles.collect(),
            pieces: choice.pieces.clone(),
            seconds: choice.seconds,
            alternatives: choice
                .alternatives
                .iter()
                .map(|a| {
                    let program = entries[a.entry].program;
                    PlanAlternative {
                        algorithm: algorithm(program),
                        program: file.programs[program as usize].name.clone(),
                        pieces: a.pieces,
                        seconds: a.seconds,
                    }
                })
                .collect(),
        }
    }
    /// The greatest split of any part.
    pub fn split(&self) -> u32 {
        self.pieces.iter().flatten().copied().max().unwrap_or(1)
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let target = match self.target {
            Target::Cpu => "the executor",
            Target::Portable => "CUDA code for 8.0 and up",
            Target::Hopper => "CUDA code for 9.0",
        };
        let extents = self.extents.iter().map(|(a, n)| format!("{a}={n}")).collect::<Vec<_>>().join(" ");
        writeln!(f, "{} at {extents} on {}, by {target}", self.kernel, self.device)?;
        writeln!(f, "  algorithm {}; program {}", self.algorithm, self.program)?;
        if !self.rules.is_empty() {
            writeln!(f, "  by {} (chain {:016x})", self.rules.join(", "), self.chain)?
        }
        self.assumptions.iter().try_for_each(|a| writeln!(f, "  assuming {a}"))?;
        for (l, (tiles, pieces)) in self.tiles.iter().zip(&self.pieces).enumerate() {
            for (p, (tiles, pieces)) in tiles.iter().zip(pieces).enumerate() {
                let tiles = tiles.iter().map(|(a, n)| format!("{a}:{n}")).collect::<Vec<_>>().join(" ");
                let split = if *pieces > 1 { format!(", split in {pieces}") } else { String::new() };
                writeln!(f, "  launch {l}, part {p}: tiles {tiles}{split}")?
            }
        }
        write!(f, "  estimated {}", time(self.seconds))?;
        for a in self.alternatives.iter().take(SHOWN) {
            let split = if a.pieces > 1 { format!(", split in {}", a.pieces) } else { String::new() };
            write!(f, "\n  instead of {} ({}; {}{split})", time(a.seconds), a.algorithm, a.program)?
        }
        match self.alternatives.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} others"),
        }
    }
}
