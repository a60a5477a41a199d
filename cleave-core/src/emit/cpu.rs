//! Entries of the CPU back end: every program under a few tile lengths. The executor takes any; the cost model chooses.
use crate::device::Target;
use crate::plan::{Entry, Tiles};
use crate::tile::{Dim, Part, Program, Role};

/// Tile lengths of grid dims and of loop dims: small ones spread few rows over the cores, long loops amortise what a step costs.
const LENGTHS: [(u32, u32); 3] = [(64, 64), (64, 256), (16, 256)];

/// Three entries a program, without conditions beside the program's own bounds.
pub fn entries(programs: &[Program]) -> Vec<Entry> {
    let entry = |(program, tiles)| Entry { program, target: Target::Cpu, tiles, launches: vec![], guards: vec![] };
    let of_program = |(i, p): (usize, &Program)| LENGTHS.map(|(grid, steps)| (i as u32, tiles(p, grid, steps)));
    programs.iter().enumerate().flat_map(of_program).map(entry).collect()
}

fn tiles(program: &Program, grid: u32, steps: u32) -> Tiles {
    let bound = |d: &Dim| d.axes.iter().map(|a| program.bounds.iter().find(|b| b.0 == *a).map_or(1, |b| b.1 as u32)).product();
    let length = |d: &Dim| match d.role {
        _ if d.batch => 1,
        Role::Grid => grid,
        Role::Loop => steps,
        Role::Chip => bound(d),
    };
    let of_part = |p: &Part| p.dims.iter().map(length).collect();
    program.launches.iter().map(|l| l.iter().map(of_part).collect()).collect()
}
