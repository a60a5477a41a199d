//! Growing the e-graph until no row adds anything.
//!
//! Comes in: the terms of a kernel and a table of rows. Goes out: the same classes with more forms, and the log of the
//! instances that did it. Kept: the result depends on the order of ids alone, never on a clock or on the order of a hash map.
use super::build::{Scope, build};
use super::matcher::{Class, Env, Snapshot, Value, kind_of};
use super::schema::{Control, Row};
use super::term::{Data, Node, Terms, normal, normalise};
use egg::Id;

/// An instance of a row that added a form or an equality.
#[derive(Clone, Debug)]
pub struct Application {
    /// The index of the row; `None` for a constructor's normal form.
    pub row: Option<usize>,
    pub env: Env,
    /// The class that was matched, the node that matched, and the class that got the form: ids of the moment.
    pub class: Id,
    pub node: Node,
    pub target: Id,
    pub result: Id,
    /// The ids made by building the form: `first..last`.
    pub first: usize,
    pub last: usize,
}

pub struct Growth {
    pub log: Vec<Application>,
    pub iterations: usize,
    /// No row adds anything more.
    pub saturated: bool,
}

/// Iterations that the search makes at most.
const ITERATIONS: usize = 40;

struct Found {
    row: Option<usize>,
    class: Id,
    node: Node,
    env: Env,
}

/// Applies the rows until nothing changes or the graph has more than `cap` nodes.
pub fn saturate(terms: &mut Terms, rows: &[Row], cap: usize) -> Growth {
    let mut growth = Growth { log: vec![], iterations: 0, saturated: false };
    let mut seen = vec![];
    while growth.iterations < ITERATIONS && terms.total_number_of_nodes() <= cap {
        growth.iterations += 1;
        let found = instances(terms, rows, &mut seen);
        let mut changed = false;
        for f in found {
            let before = terms.nodes().len();
            let (result, target) = match f.row {
                Some(row) => (build(terms, &rows[row].right, &Scope::new(&f.env)), target(&rows[row], &f)),
                None => (normalise(terms, &f.node), f.class),
            };
            let Some(result) = result else { continue };
            let last = terms.nodes().len();
            if terms.union(target, result) || last > before {
                changed = true;
                growth.log.push(Application { row: f.row, env: f.env, class: f.class, node: f.node, target, result, first: before, last })
            }
            if terms.nodes().len() > 4 * cap {
                break;
            }
        }
        terms.rebuild();
        if !changed {
            growth.saturated = true;
            break;
        }
    }
    growth
}

/// What an iteration remembers of a class: its nodes and facts, which nodes are normal, and which of those are left to
/// simplifying rows. An instance can be new only where that changed, or near above.
#[derive(Clone)]
struct Seen {
    nodes: Vec<Node>,
    data: Data,
    normal: Vec<usize>,
    rewritten: Vec<usize>,
}

/// How far below a node the question looks whether it is normal and left as it is.
const FORM: usize = 3;
/// How far below its root an instance looks: the deepest left side, and two more for its split.
const REACH: usize = 5;

/// The instances of all rows that the last iteration has not seen, by class, node and row.
fn instances(terms: &Terms, rows: &[Row], seen: &mut Vec<Option<Seen>>) -> Vec<Found> {
    let mut ids: Vec<Id> = terms.classes().map(|c| c.id).collect();
    ids.sort_unstable();
    seen.resize(terms.nodes().len(), None);
    let same = |id: Id| seen[usize::from(id)].as_ref().is_some_and(|s| s.data == terms[id].data && s.nodes == terms[id].nodes);
    let mut touched: Vec<bool> = vec![false; seen.len()];
    ids.iter().for_each(|id| touched[usize::from(*id)] = !same(*id));
    let formed = spread(terms, &ids, touched.clone(), FORM);
    let mut found = vec![];
    // what a constructor would write otherwise is replaced by that, and matched by nothing else
    let mut snapshot = Snapshot { terms, classes: (0..seen.len()).map(|_| None).collect() };
    for &id in &ids {
        let class = &terms[id];
        let known = seen[usize::from(id)].as_ref().filter(|_| !formed[usize::from(id)]);
        let usable: Vec<usize> = match known {
            Some(known) => known.normal.clone(),
            None => (0..class.nodes.len()).filter(|i| normal(terms, &class.nodes[*i])).collect(),
        };
        if known.is_none() {
            let others = (0..class.nodes.len()).filter(|i| !usable.contains(i));
            found.extend(others.map(|i| Found { row: None, class: id, node: class.nodes[i].clone(), env: Env::default() }))
        }
        let kinds = usable.iter().fold(0, |bits, i| bits | kind_of(&class.nodes[*i]));
        snapshot.classes[usize::from(id)] = Some(Class { data: &class.data, nodes: &class.nodes, usable, kinds })
    }
    // so is what a simplifying row rewrites
    let simplifying: Vec<usize> = (0..rows.len()).filter(|r| rows[*r].control.contains(&Control::Simplify)).collect();
    let mut now: Vec<(Id, Seen)> = vec![];
    for &id in ids.iter().filter(|id| formed[usize::from(**id)]) {
        let class = snapshot.class(id);
        let is_rewritten = |i: &usize| simplifying.iter().any(|r| !snapshot.instances(&rows[*r], id, &class.nodes[*i]).is_empty());
        let rewritten: Vec<usize> = class.usable.iter().copied().filter(is_rewritten).collect();
        now.push((id, Seen { nodes: class.nodes.to_vec(), data: class.data.clone(), normal: class.usable.clone(), rewritten }))
    }
    for (id, this) in now {
        let last = &seen[usize::from(id)];
        touched[usize::from(id)] |= last.as_ref().is_none_or(|s| s.normal != this.normal || s.rewritten != this.rewritten);
        seen[usize::from(id)] = Some(this)
    }
    for &id in &ids {
        if let Some(this) = &seen[usize::from(id)] {
            snapshot.leave(id, &this.rewritten)
        }
    }
    let changed = spread(terms, &ids, touched, REACH);
    for &id in ids.iter().filter(|id| changed[usize::from(**id)]) {
        let class = snapshot.class(id);
        for (i, node) in class.nodes.iter().enumerate() {
            let mut collect = |r: usize| {
                let envs = snapshot.instances(&rows[r], id, node);
                found.extend(envs.into_iter().map(|env| Found { row: Some(r), class: id, node: node.clone(), env }))
            };
            if class.usable.contains(&i) {
                (0..rows.len()).for_each(&mut collect)
            } else if seen[usize::from(id)].as_ref().is_some_and(|s| s.rewritten.contains(&i)) {
                simplifying.iter().copied().for_each(&mut collect)
            }
        }
    }
    found
}

/// The classes at most so many steps above marked ones, and these.
fn spread(terms: &Terms, ids: &[Id], mut marked: Vec<bool>, steps: usize) -> Vec<bool> {
    for _ in 0..steps {
        let below = marked.clone();
        for id in ids.iter().filter(|id| !below[usize::from(**id)]) {
            marked[usize::from(*id)] = terms[*id].nodes.iter().any(|n| n.children.iter().any(|c| below[usize::from(*c)]))
        }
    }
    marked
}

/// The class that the right side joins.
fn target(row: &Row, found: &Found) -> Id {
    match row.replaces.and_then(|v| found.env.get(v)) {
        Some(Value::Class(x)) => *x,
        _ => found.class,
    }
}
