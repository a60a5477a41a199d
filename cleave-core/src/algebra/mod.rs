//! The algebra: equal algorithms of a kernel, by equality saturation.
//!
//! Comes in: a [`Kernel`]. Goes out: its source and up to seven algorithms equal to it that differ in passes, in what they spill
//! or in flops, each checked against the source by the oracle, with the rule applications that lead to it. Kept: every equality
//! comes from a row of [`rules::TABLE`], and nothing here knows an extent, a tile or a name. The stages, in order: [`term`] (the
//! e-graph), [`rules`] in the language of [`schema`], the matcher and [`saturate`], [`extract`], [`select`], [`derive`],
//! [`check`].
mod build;
pub mod check;
mod cost;
pub mod derive;
pub mod extract;
mod matcher;
pub mod rules;
pub mod saturate;
pub mod schema;
mod select;
mod split;
pub mod term;

pub use cost::cost;

use crate::kernel::{Algorithm, Kernel};
use check::Unequal;
use derive::Derivations;
use extract::{Extracted, Objective, Space, scenarios};
use saturate::{Growth, saturate};
use schema::{Control, Row};
use select::Candidate;

/// What a search found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The source first; at most [`MOST`].
    pub algorithms: Vec<Algorithm>,
    /// Algorithms that failed the check against the source. A build that meets one fails.
    pub rejected: Vec<Unequal>,
    pub statistics: Statistics,
}

/// The size of a search; of the larger one where there were two.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Statistics {
    pub iterations: usize,
    pub nodes: usize,
    pub classes: usize,
    /// False if the node cap stopped the search: then the source is the only algorithm.
    pub saturated: bool,
}

/// Algorithms of one kernel, the source included.
pub const MOST: usize = 8;
/// Nodes at which a search gives up. The largest of the known kernels needs a few hundred.
pub const CAP: usize = 4000;

/// Finds the algorithms of a kernel.
pub fn search(kernel: &Kernel) -> Search {
    search_with(kernel, rules::TABLE, CAP)
}

/// The same under another table of rules, and another cap.
pub fn search_with(kernel: &Kernel, rows: &[Row], cap: usize) -> Search {
    let mut statistics = Statistics { saturated: true, ..Statistics::default() };
    let mut candidates = vec![];
    let cancels = run(kernel, rows, cap, &mut statistics, &mut candidates);
    if cancels {
        // what loses low bits may be cheaper than what does not: a second search lets the safe forms survive beside it
        let safe: Vec<Row> = rows.iter().filter(|r| !r.control.contains(&Control::Cancels)).copied().collect();
        candidates.iter_mut().for_each(|c| c.cancels = true);
        run(kernel, &safe, cap, &mut statistics, &mut candidates);
    }
    let source = Algorithm { name: "source".into(), graph: kernel.graph.clone(), cost: cost(&kernel.graph), derivation: vec![] };
    let scenarios = scenarios(&kernel.graph, &kernel.bounds);
    let (algorithms, rejected) = checked(kernel, select::select(source, candidates, &scenarios));
    Search { algorithms, rejected, statistics }
}

/// One search. Says whether a row was used that may cancel.
fn run(kernel: &Kernel, rows: &[Row], cap: usize, statistics: &mut Statistics, candidates: &mut Vec<Candidate>) -> bool {
    let Some((mut terms, root)) = term::from_graph(&kernel.graph) else { return false };
    let Growth { log, iterations, saturated } = saturate(&mut terms, rows, cap);
    statistics.iterations = statistics.iterations.max(iterations);
    statistics.nodes = statistics.nodes.max(terms.total_number_of_nodes());
    statistics.classes = statistics.classes.max(terms.number_of_classes());
    statistics.saturated &= saturated;
    if !saturated {
        return false;
    }
    let mut space = Space::new(&terms, root);
    let scenarios = scenarios(&kernel.graph, &kernel.bounds);
    let mut found: Vec<Extracted> = vec![];
    let tasks = [Objective::Passes, Objective::Spills].into_iter().map(|o| (o, &scenarios[0])).chain(scenarios.iter().map(|s| (Objective::Flops, s)));
    for (objective, extents) in tasks {
        if let Some(e) = space.best(objective, extents, &kernel.graph)
            && !found.iter().any(|f| f.graph.nodes == e.graph.nodes)
        {
            found.push(e)
        }
    }
    let derivations = Derivations::new(&terms, rows, &log);
    candidates.extend(found.into_iter().map(|e| {
        let cost = cost(&e.graph);
        let derivation = derivations.steps(&e.chosen, &kernel.graph);
        Candidate { graph: e.graph, cost, derivation, cancels: false }
    }));
    log.iter().any(|a| a.row.is_some_and(|r| rows[r].control.contains(&Control::Cancels)))
}

/// Splits algorithms into those that are equal to the first one, numerically, and those that are not.
fn checked(kernel: &Kernel, algorithms: Vec<Algorithm>) -> (Vec<Algorithm>, Vec<Unequal>) {
    let samples = if algorithms.len() > 1 { check::samples(&kernel.graph, 1) } else { vec![] };
    let (mut equal, mut rejected) = (vec![], vec![]);
    for (i, a) in algorithms.into_iter().enumerate() {
        match check::difference(&samples, &a.graph) {
            Some(d) if i > 0 => rejected.push(Unequal {
                kernel: kernel.name.clone(),
                algorithm: a.name,
                output: kernel.graph.outputs[d.output].name.clone(),
                wanted: d.wanted,
                found: d.found,
                extents: d.extents,
            }),
            _ => equal.push(a),
        }
    }
    (equal, rejected)
}
