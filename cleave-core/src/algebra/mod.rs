//! The algebra: equal algorithms of a kernel, by equality saturation.
//!
//! Comes in: a [`Kernel`]. Goes out: its source and up to seven algorithms equal to it that differ in passes, in what they spill
//! or in flops, each checked against the source by the oracle, with the rule applications that lead to it. Kept: every equality
//! comes from a row of [`rules::TABLE`], and nothing here knows an extent, a tile or a name. The stages, in order: [`term`] (the
//! e-graph), [`rules`] in the language of [`schema`], the matcher and [`mod@saturate`], [`extract`], [`select`], [`mod@derive`],
//! [`check`].
pub(crate) mod build;
pub mod check;
mod cost;
pub mod derive;
pub mod extract;
pub(crate) mod matcher;
mod notation;
mod relabel;
pub mod rules;
pub mod saturate;
pub mod schema;
mod select;
mod settle;
mod split;
pub mod term;

pub use cost::cost;

use crate::axis::AxisId;
use crate::graph::Graph;
use crate::kernel::{Algorithm, Kernel};
use check::Unequal;
use derive::{Applied, Derivations};
use egg::Id;
use extract::{Extents, Extracted, Objective, Space, scenarios};
use relabel::Relabel;
use saturate::{Growth, saturate};
use schema::{Control, Row};
use select::Candidate;
use settle::settle;
use term::Terms;

/// What a search found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The source first; at most [`MOST`].
    pub algorithms: Vec<Algorithm>,
    /// Algorithms that failed the check against the source. A build that meets one fails.
    pub rejected: Vec<Unequal>,
    /// For each algorithm the applications behind its derivation, over axes in order of use; none for the source.
    pub chains: Vec<Vec<Applied>>,
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
pub const CAP: usize = 1500;

/// Finds the algorithms of a kernel.
pub fn search(kernel: &Kernel) -> Search {
    search_with(kernel, rules::TABLE, CAP)
}

/// The same under another table of rules, and another cap.
pub fn search_with(kernel: &Kernel, rows: &[Row], cap: usize) -> Search {
    let mut statistics = Statistics { saturated: true, ..Statistics::default() };
    let order = Relabel::by_use(&kernel.graph);
    let graph = order.graph(&kernel.graph);
    let bounds: Vec<(AxisId, usize)> = kernel.bounds.iter().map(|(a, n)| (order.axis(*a), *n)).collect();
    let scenarios = scenarios(&graph, &bounds);
    let mut runs = vec![];
    runs.extend(run(&graph, rows.to_vec(), cap, &mut statistics));
    let cancels = runs.iter().any(|r| r.growth.log.iter().any(|a| a.row.is_some_and(|row| rows[row].control.contains(&Control::Cancels))));
    if cancels {
        // what loses low bits may be cheaper than what does not: a second search lets the safe forms survive beside it
        let safe = rows.iter().filter(|r| !r.control.contains(&Control::Cancels)).copied().collect();
        runs.extend(run(&graph, safe, cap, &mut statistics))
    }
    let mut candidates = vec![];
    for (i, r) in runs.iter().enumerate() {
        let found = extracted(&graph, r, &scenarios);
        candidates.extend(found.into_iter().map(|e| Candidate { cost: cost(&e.graph), extracted: e, run: i, cancels: cancels && i == 0 }))
    }
    let source = Algorithm { name: "source".into(), cost: cost(&graph), graph, derivation: vec![] };
    let selected = select::select(&source, candidates, &scenarios);
    let derivations: Vec<Derivations> = runs.iter().map(|r| Derivations::new(&r.terms, &r.rows, &r.growth.log)).collect();
    let back = order.inverse();
    let mut algorithms = vec![Algorithm { cost: back.cost(&source.cost), graph: kernel.graph.clone(), ..source.clone() }];
    let mut chains = vec![vec![]];
    for (name, c) in selected {
        let applied = derivations[c.run].applied(&c.extracted.chosen, &source.graph);
        let derivation = applied.iter().map(Applied::step).collect();
        chains.push(applied);
        algorithms.push(Algorithm { name, graph: back.back(&c.extracted.graph, &kernel.graph), cost: back.cost(&c.cost), derivation })
    }
    let (algorithms, rejected) = checked(kernel, algorithms);
    let (algorithms, chains) = algorithms.into_iter().map(|(i, a)| (a, std::mem::take(&mut chains[i]))).unzip();
    Search { algorithms, rejected, chains, statistics }
}

/// A saturated e-graph of a kernel.
struct Run {
    terms: Terms,
    root: Id,
    rows: Vec<Row>,
    growth: Growth,
}

/// Saturates the terms of a graph; `None` if that does not end within the cap, or if the graph cannot be searched.
fn run(graph: &Graph, rows: Vec<Row>, cap: usize, statistics: &mut Statistics) -> Option<Run> {
    let (mut terms, root) = term::from_graph(graph)?;
    let growth = saturate(&mut terms, &rows, cap);
    statistics.iterations = statistics.iterations.max(growth.iterations);
    statistics.nodes = statistics.nodes.max(terms.total_number_of_nodes());
    statistics.classes = statistics.classes.max(terms.number_of_classes());
    statistics.saturated &= growth.saturated;
    growth.saturated.then_some(Run { terms, root, rows, growth })
}

/// The best graphs of a run for every objective.
fn extracted(graph: &Graph, run: &Run, scenarios: &[Extents]) -> Vec<Extracted> {
    let mut space = Space::new(&run.terms, run.root);
    let mut found: Vec<Extracted> = vec![];
    let tasks = [Objective::Passes, Objective::Spills].into_iter().map(|o| (o, &scenarios[0])).chain(scenarios.iter().map(|s| (Objective::Flops, s)));
    for (objective, extents) in tasks {
        let best = space.best(objective, extents, graph).map(|e| Extracted { graph: settle(&e.graph, graph), ..e });
        if let Some(e) = best
            && !found.iter().any(|f| f.graph.nodes == e.graph.nodes)
        {
            found.push(e)
        }
    }
    found
}

/// Splits algorithms into those that are equal to the first one, numerically, with their places, and those that are not.
fn checked(kernel: &Kernel, algorithms: Vec<Algorithm>) -> (Vec<(usize, Algorithm)>, Vec<Unequal>) {
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
            _ => equal.push((i, a)),
        }
    }
    (equal, rejected)
}
