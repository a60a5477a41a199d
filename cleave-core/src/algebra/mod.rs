//! The algebra: equal algorithms of a kernel, by equality saturation.
//!
//! Comes in: a [`Kernel`]. Goes out: its source and up to seven algorithms equal to it that differ in passes, in what they spill
//! or in flops, each checked against the source by the oracle, with the rule applications that lead to it. Kept: every equality
//! comes from a row of [`rules::TABLE`] or is an assumption of the kernel, which the algorithm then names; and nothing here knows an extent, a
//! tile or a name. The stages, in order: [`term`] (the
//! e-graph), [`rules`] in the language of [`schema`], the matcher and [`mod@saturate`], [`extract`], [`select`], [`mod@derive`],
//! [`check`] (with [`meet`] for what holds under assumptions only).
pub(crate) mod build;
pub mod check;
mod cost;
pub mod derive;
pub mod extract;
pub(crate) mod matcher;
mod meet;
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

use crate::assumption::Assumption;
use crate::axis::AxisId;
use crate::graph::Graph;
use crate::kernel::{Algorithm, Kernel, Step};
use crate::show;
use check::{Sample, Unequal};
use derive::{Applied, Derivations};
use egg::Id;
use extract::{Extents, Extracted, Objective, Space, scenarios};
use relabel::Relabel;
use saturate::{Growth, saturate};
use schema::{Control, Row};
use select::Candidate;
use settle::settle;
use std::collections::BTreeMap;
use term::Terms;

/// What a search found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The source first; at most [`MOST`].
    pub algorithms: Vec<Algorithm>,
    /// Algorithms that failed the check against the source. A build that meets one fails.
    pub rejected: Vec<Unequal>,
    /// Assumptions of the kernel that nothing was derived from.
    pub unused: Vec<Unused>,
    /// For each algorithm the applications behind its derivation (those of rules), over axes in order of use; none for the source.
    pub chains: Vec<Vec<Applied>>,
    pub statistics: Statistics,
}

/// Why nothing rests on assumptions.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Unused {
    #[error("`{0}`: the assumption `{1}` is not used, as no inputs were found on which it holds: nothing that rests on it could be checked")]
    Unmet(String, String),
    #[error("`{0}`: the assumption `{1}` is not used, as the search does not end with it")]
    Endless(String, String),
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
    let mut search = search_once(kernel, rows, cap);
    if !search.rejected.is_empty() {
        // never with true rows; a wrong one is worth the time to name it
        let without = |row: &Row| rows.iter().filter(|r| r.name != row.name).copied().collect::<Vec<_>>();
        let guilty = rows.iter().filter(|row| search_once(kernel, &without(row), cap).rejected.is_empty());
        let rules: Vec<String> = guilty.map(|r| r.name.to_string()).collect();
        search.rejected.iter_mut().for_each(|r| r.rules = rules.clone())
    }
    search
}

fn search_once(kernel: &Kernel, rows: &[Row], cap: usize) -> Search {
    let mut statistics = Statistics { saturated: true, ..Statistics::default() };
    let order = Relabel::by_use(&kernel.graph);
    let graph = order.graph(&kernel.graph);
    let bounds: Vec<(AxisId, usize)> = kernel.bounds.iter().map(|(a, n)| (order.axis(*a), *n)).collect();
    let scenarios = scenarios(&graph, &bounds);
    let (mut runs, mut unused) = (vec![], vec![]);
    let assumed: Vec<Assumption> = kernel.assumptions.iter().map(|a| Assumption { graph: order.graph(&a.graph), ..a.clone() }).collect();
    for assumes in choices(assumed.len() as u32) {
        let chosen: Vec<&Assumption> = assumes.iter().map(|i| &assumed[*i as usize]).collect();
        let mut size = Statistics { saturated: true, ..Statistics::default() };
        let found = searched(&graph, rows, &chosen, cap, &mut size);
        if assumes.is_empty() {
            statistics = size
        } else if found.is_empty() {
            unused.push(Unused::Endless(kernel.name.clone(), names(&chosen)))
        }
        runs.extend(found.into_iter().map(|(run, cancels)| (run, cancels, assumes.clone())))
    }
    let mut candidates = vec![];
    for (i, (run, cancels, assumes)) in runs.iter().enumerate() {
        let found = extracted(&graph, run, &scenarios);
        candidates.extend(found.into_iter().map(|e| Candidate { cost: cost(&e.graph), extracted: e, run: i, cancels: *cancels, assumes: assumes.clone() }))
    }
    let source = Algorithm { name: "source".into(), cost: cost(&graph), graph, derivation: vec![], assumptions: vec![] };
    let selected = select::select(&source, candidates, &scenarios);
    let derivations: Vec<Derivations> = runs.iter().map(|(r, ..)| Derivations::new(&r.terms, &r.rows, &r.growth.log)).collect();
    let back = order.inverse();
    let mut algorithms = vec![Algorithm { cost: back.cost(&source.cost), graph: kernel.graph.clone(), ..source.clone() }];
    let mut chains = vec![vec![]];
    for (name, c) in selected {
        let applied = derivations[c.run].applied(&c.extracted.chosen, &source.graph);
        let steps = c.assumes.iter().flat_map(|i| assumed_steps(&assumed[*i as usize]));
        let derivation = steps.chain(applied.iter().map(Applied::step)).collect();
        chains.push(applied);
        let graph = back.back(&c.extracted.graph, &kernel.graph);
        algorithms.push(Algorithm { name, graph, cost: back.cost(&c.cost), derivation, assumptions: c.assumes })
    }
    let (algorithms, rejected) = checked(kernel, algorithms, &mut unused);
    let (algorithms, chains) = algorithms.into_iter().map(|(i, a)| (a, std::mem::take(&mut chains[i]))).unzip();
    Search { algorithms, rejected, unused, chains, statistics }
}

/// Which assumptions are taken together: none, each, all. What an algorithm does not need it is found without.
fn choices(assumptions: u32) -> Vec<Vec<u32>> {
    let each = (0..assumptions).map(|i| vec![i]);
    let all = (assumptions > 1).then(|| (0..assumptions).collect());
    [vec![]].into_iter().chain(each).chain(all).collect()
}

fn names(assumptions: &[&Assumption]) -> String {
    assumptions.iter().map(|a| a.name()).collect::<Vec<_>>().join("` with `")
}

/// An assumption as steps of a derivation.
fn assumed_steps(assumption: &Assumption) -> Vec<Step> {
    let term = |node| show::term(&assumption.graph, node);
    let step = |(left, right)| Step {
        rule: format!("assumption `{}`", assumption.name()),
        assumed: true,
        bindings: vec![],
        guards: vec![],
        before: term(left),
        after: term(right),
    };
    assumption.sides().into_iter().map(step).collect()
}

/// A saturated e-graph of a kernel.
struct Run {
    terms: Terms,
    root: Id,
    rows: Vec<Row>,
    growth: Growth,
}

/// A search of a graph, and whether its rows may cancel. What loses low bits may be cheaper than what does not: then a second search lets
/// the safe forms survive beside it.
fn searched(graph: &Graph, rows: &[Row], assumed: &[&Assumption], cap: usize, statistics: &mut Statistics) -> Vec<(Run, bool)> {
    let may_cancel = |r: &Row| r.control.contains(&Control::Cancels);
    let Some(first) = run(graph, rows.to_vec(), assumed, cap, statistics) else { return vec![] };
    let cancels = first.growth.log.iter().any(|a| a.row.is_some_and(|row| may_cancel(&rows[row])));
    let mut runs = vec![(first, cancels)];
    if cancels {
        let safe = rows.iter().filter(|r| !may_cancel(r)).copied().collect();
        runs.extend(run(graph, safe, assumed, cap, statistics).map(|r| (r, false)))
    }
    runs
}

/// Saturates the terms of a graph; `None` if that does not end within the cap, or if the graph cannot be searched.
fn run(graph: &Graph, rows: Vec<Row>, assumed: &[&Assumption], cap: usize, statistics: &mut Statistics) -> Option<Run> {
    let (mut terms, root) = term::from_graph(graph, assumed)?;
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

/// Splits algorithms into those that are equal to the first one, numerically, with their places, and those that are not. Those that rest on
/// assumptions are compared where these hold, or left out.
fn checked(kernel: &Kernel, algorithms: Vec<Algorithm>, unused: &mut Vec<Unused>) -> (Vec<(usize, Algorithm)>, Vec<Unequal>) {
    let mut known: BTreeMap<Vec<u32>, Vec<Sample>> = BTreeMap::new();
    let (mut equal, mut rejected) = (vec![], vec![]);
    for (i, a) in algorithms.into_iter().enumerate() {
        let assumed: Vec<&Assumption> = a.assumptions.iter().map(|i| &kernel.assumptions[*i as usize]).collect();
        let samples: &[Sample] = match i {
            0 => &[],
            _ => known.entry(a.assumptions.clone()).or_insert_with(|| match &assumed[..] {
                [] => check::samples(&kernel.graph, 1),
                assumed => check::samples_meeting(&kernel.graph, assumed, 1),
            }),
        };
        if i > 0 && samples.is_empty() {
            let reason = Unused::Unmet(kernel.name.clone(), names(&assumed));
            if !unused.contains(&reason) {
                unused.push(reason)
            }
            continue;
        }
        match check::difference(samples, &a.graph) {
            Some(d) if i > 0 => rejected.push(Unequal {
                kernel: kernel.name.clone(),
                algorithm: a.name,
                output: kernel.graph.outputs[d.output].name.clone(),
                wanted: d.wanted,
                found: d.found,
                extents: d.extents,
                rules: vec![],
            }),
            _ => equal.push((i, a)),
        }
    }
    (equal, rejected)
}
