//! Growing the e-graph until no row adds anything.
//!
//! Comes in: the terms of a kernel and a table of rows. Goes out: the same classes with more forms, and the log of the
//! instances that did it. Kept: the result depends on the order of ids alone, never on a clock or on the order of a hash map.
use super::build::{Scope, build};
use super::matcher::{Env, Snapshot, Value};
use super::schema::{Control, Row, Term};
use super::term::{Head, Node, Terms, normal, normalise};
use crate::axis::AxisSet;
use crate::rational::Rational;
use egg::{Id, Language};

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
    while growth.iterations < ITERATIONS && terms.total_number_of_nodes() <= cap {
        growth.iterations += 1;
        let found = instances(terms, rows);
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

/// All instances of all rows, by class, node and row.
fn instances(terms: &Terms, rows: &[Row]) -> Vec<Found> {
    let mut classes: Vec<Id> = terms.classes().map(|c| c.id).collect();
    classes.sort_unstable();
    let by_kind = by_kind(rows);
    let mut found = vec![];
    // what a constructor would write otherwise is replaced by that, and matched by nothing else
    let mut usable: Vec<Vec<usize>> = vec![vec![]; terms.nodes().len()];
    for &class in &classes {
        for (i, node) in terms[class].nodes.iter().enumerate() {
            if normal(terms, node) {
                usable[usize::from(class)].push(i)
            } else {
                found.push(Found { row: None, class, node: node.clone(), env: Env::default() })
            }
        }
    }
    let normal_nodes = usable.clone();
    let plain = Snapshot { terms, usable: &normal_nodes };
    for &class in &classes {
        let simple = |node: &Node| {
            !by_kind[node.discriminant() as usize].iter().any(|r| is_simplifying(&rows[*r]) && !plain.instances(&rows[*r], class, node).is_empty())
        };
        usable[usize::from(class)].retain(|i| simple(&terms[class].nodes[*i]))
    }
    let snapshot = Snapshot { terms, usable: &usable };
    for &class in &classes {
        let nodes = &terms[class].nodes;
        for i in &normal_nodes[usize::from(class)] {
            let simple = usable[usize::from(class)].contains(i);
            for &r in &by_kind[nodes[*i].discriminant() as usize] {
                if simple || is_simplifying(&rows[r]) {
                    for env in snapshot.instances(&rows[r], class, &nodes[*i]) {
                        found.push(Found { row: Some(r), class, node: nodes[*i].clone(), env })
                    }
                }
            }
        }
    }
    found
}

/// The class that the right side joins.
fn target(row: &Row, found: &Found) -> Id {
    match row.replaces.and_then(|v| found.env.get(v)) {
        Some(Value::Class(x)) => *x,
        _ => found.class,
    }
}

fn is_simplifying(row: &Row) -> bool {
    row.control.contains(&Control::Simplify)
}

/// The rows whose left side begins with each kind of node.
fn by_kind(rows: &[Row]) -> Vec<Vec<usize>> {
    let mut kinds = vec![vec![]; 10];
    for (i, row) in rows.iter().enumerate() {
        let head = match row.left {
            Term::Product(_) => Head::Product(vec![]),
            Term::Linear(_) => Head::Linear(vec![], Rational::ZERO),
            Term::Sum(..) => Head::Sum(AxisSet::EMPTY),
            Term::Maximum(..) => Head::Maximum(AxisSet::EMPTY),
            Term::Apply(f, _) => Head::Apply(f),
            _ => continue,
        };
        kinds[Node::new(head, vec![]).discriminant() as usize].push(i)
    }
    kinds
}
