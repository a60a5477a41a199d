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

/// What the last iteration saw of each class: its nodes, which of them were usable, and its facts. An instance can be new only
/// where that changed, or near above.
type Seen = Vec<Option<(Vec<Node>, Vec<usize>, Data)>>;

/// How far below its root an instance may look: the deepest left side, and one more for its controls.
const REACH: usize = 4;

/// The instances of all rows that the last iteration has not seen, by class, node and row.
fn instances(terms: &Terms, rows: &[Row], seen: &mut Seen) -> Vec<Found> {
    let mut ids: Vec<Id> = terms.classes().map(|c| c.id).collect();
    ids.sort_unstable();
    let simplifying: Vec<usize> = (0..rows.len()).filter(|r| rows[*r].control.contains(&Control::Simplify)).collect();
    let mut found = vec![];
    // what a constructor would write otherwise is replaced by that, and matched by nothing else
    let mut snapshot = Snapshot { terms, classes: (0..terms.nodes().len()).map(|_| None).collect() };
    for &id in &ids {
        let class = &terms[id];
        let (mut usable, mut kinds) = (vec![], 0);
        for (i, node) in class.nodes.iter().enumerate() {
            if normal(terms, node) {
                usable.push(i);
                kinds |= kind_of(node)
            } else {
                found.push(Found { row: None, class: id, node: node.clone(), env: Env::default() })
            }
        }
        snapshot.classes[usize::from(id)] = Some(Class { data: &class.data, nodes: &class.nodes, usable, kinds })
    }
    // so is what a simplifying row rewrites
    let mut simple: Vec<(Id, Vec<usize>)> = vec![];
    for &id in &ids {
        let class = snapshot.class(id);
        let rewritten = |i: &&usize| simplifying.iter().any(|r| !snapshot.instances(&rows[*r], id, &class.nodes[**i]).is_empty());
        let these: Vec<usize> = class.usable.iter().filter(rewritten).copied().collect();
        if !these.is_empty() {
            simple.push((id, these))
        }
    }
    for (id, these) in &simple {
        let nodes = snapshot.class(*id).nodes;
        let gone: Vec<&Node> = these.iter().map(|i| &nodes[*i]).collect();
        snapshot.retain(*id, |n| !gone.iter().any(|g| std::ptr::eq(*g, n)))
    }
    let changed = changed(&snapshot, &ids, seen);
    for &id in &ids {
        if !changed[usize::from(id)] {
            continue;
        }
        let class = snapshot.class(id);
        let rewritten: &[usize] = simple.iter().find(|s| s.0 == id).map_or(&[], |s| &s.1);
        for (i, node) in class.nodes.iter().enumerate() {
            let mut collect = |r: usize| {
                let envs = snapshot.instances(&rows[r], id, node);
                found.extend(envs.into_iter().map(|env| Found { row: Some(r), class: id, node: node.clone(), env }))
            };
            if class.usable.contains(&i) {
                (0..rows.len()).for_each(&mut collect)
            } else if rewritten.contains(&i) {
                simplifying.iter().copied().for_each(&mut collect)
            }
        }
    }
    found
}

/// The classes, by index, at which an instance may be new; remembers what this iteration sees.
fn changed(snapshot: &Snapshot, ids: &[Id], seen: &mut Seen) -> Vec<bool> {
    seen.resize_with(snapshot.classes.len(), || None);
    let mut changed = vec![false; snapshot.classes.len()];
    for &id in ids {
        let class = snapshot.class(id);
        let same = |(nodes, usable, data): &(Vec<Node>, Vec<usize>, Data)| data == class.data && *usable == class.usable && nodes == class.nodes;
        if !seen[usize::from(id)].as_ref().is_some_and(same) {
            changed[usize::from(id)] = true;
            seen[usize::from(id)] = Some((class.nodes.to_vec(), class.usable.clone(), class.data.clone()))
        }
    }
    for _ in 0..REACH {
        let below = changed.clone();
        for &id in ids {
            let class = snapshot.class(id);
            changed[usize::from(id)] |= class.nodes.iter().any(|n| n.children.iter().any(|c| below[usize::from(*c)]))
        }
    }
    changed
}

/// The class that the right side joins.
fn target(row: &Row, found: &Found) -> Id {
    match row.replaces.and_then(|v| found.env.get(v)) {
        Some(Value::Class(x)) => *x,
        _ => found.class,
    }
}
