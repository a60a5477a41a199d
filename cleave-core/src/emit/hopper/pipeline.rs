//! The pipeliner: from the operations of one step of a loop to a schedule in which products of matrices run while other work
//! does. In: operations in the order of the mathematics, each with the values that it reads and writes. Out: a prologue, a body
//! and a tail of events, with every wait. It knows nothing of CUDA, of tiles or of what is computed.
//!
//! Products are asynchronous: they are issued in groups, and a wait ends once at most so many groups are in flight. A product
//! that depends on other work of its step, and feeds no further product, is the cut: it and what follows it move one step later, so
//! that it runs beside the next step's work. The schedule is a list schedule over both steps: any product that is ready is issued, else the
//! first work that leaves a group in flight is done.
use std::collections::BTreeSet;
use std::fmt;

/// Something that operations read and write: a value in registers, a tile in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Value(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A product of matrices.
    Product,
    /// Anything that is done when its instructions are.
    Work,
    /// Work that leaves a state as it is while the state holds its identity: the first step does without.
    Move,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub kind: Kind,
    /// For the printed schedule.
    pub label: String,
    pub reads: BTreeSet<Value>,
    pub writes: BTreeSet<Value>,
}

impl Operation {
    /// Whether the order of two operations matters.
    fn conflicts(&self, other: &Operation) -> bool {
        self.writes.iter().any(|v| other.reads.contains(v) || other.writes.contains(v)) || self.reads.iter().any(|v| other.writes.contains(v))
    }
}

/// Operations of one step, by index, with the step relative to the loop's counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instance {
    /// A group of products, or a single operation.
    pub unit: usize,
    pub offset: i32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The products of a group are issued and committed.
    Issue(Instance),
    /// Until at most `younger` groups are in flight; `retired` are those known to be done by it.
    Wait {
        younger: usize,
        retired: Vec<Instance>,
    },
    Work(Instance),
}

/// Products that are committed together, one other operation, or the mere wait for a group that no other work waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unit {
    Group(Vec<usize>),
    Single(usize),
    Retire(usize),
}

#[derive(Clone, Debug)]
pub struct Schedule {
    pub units: Vec<Unit>,
    /// What of the first step comes before the loop.
    pub prologue: Vec<Event>,
    /// The loop's body at step j >= 1: the rest of step j - 1 and the start of step j.
    pub body: Vec<Event>,
    /// The rest of the last step.
    pub tail: Vec<Event>,
    /// Groups in flight where the body begins.
    pub in_flight: usize,
    labels: Vec<String>,
}

struct Analysis<'a> {
    operations: &'a [Operation],
    units: Vec<Unit>,
    stages: Vec<i32>,
}

impl Analysis<'_> {
    fn asynchronous(&self, unit: usize) -> bool {
        matches!(self.units[unit], Unit::Group(_))
    }
    fn members(&self, unit: usize) -> &[usize] {
        match &self.units[unit] {
            Unit::Group(all) => all,
            Unit::Single(one) => std::slice::from_ref(one),
            Unit::Retire(_) => &[],
        }
    }
    /// Whether `later` has to see `earlier` done. The same operation of two steps is held apart by what it writes.
    fn dependent(&self, earlier: Instance, later: Instance) -> bool {
        match (&self.units[earlier.unit], &self.units[later.unit]) {
            (_, Unit::Retire(group)) => *group == earlier.unit && earlier.offset == later.offset,
            (Unit::Retire(_), _) => false,
            _ => self.members(earlier.unit).iter().any(|a| self.members(later.unit).iter().any(|b| self.operations[*a].conflicts(&self.operations[*b]))),
        }
    }
    fn instances(&self, stage: i32, offset: i32) -> impl Iterator<Item = Instance> + '_ {
        (0..self.units.len()).filter(move |u| self.stages[*u] == stage).map(move |unit| Instance { unit, offset })
    }
    /// A list schedule of instances after groups in flight: events, and the groups in flight after them.
    fn order(&self, mut instances: Vec<Instance>, in_flight: &[Instance]) -> (Vec<Event>, Vec<Instance>) {
        instances.sort_by_key(|i| (i.offset, i.unit));
        let n = instances.len();
        let before: Vec<Vec<usize>> = (0..n).map(|i| (0..i).filter(|j| self.dependent(instances[*j], instances[i])).collect()).collect();
        let mut height = vec![1; n];
        for i in (0..n).rev() {
            for j in &before[i] {
                height[*j] = height[*j].max(height[i] + 1)
            }
        }
        let (mut flying, mut events, mut done) = (in_flight.to_vec(), vec![], vec![false; n]);
        while let Some(next) = {
            let ready: Vec<usize> = (0..n).filter(|i| !done[*i] && before[*i].iter().all(|j| done[*j])).collect();
            // groups that must have retired: all up to the youngest one that the work depends on
            let needs = |i: usize| flying.iter().rposition(|g| self.dependent(*g, instances[i])).map_or(0, |k| k + 1);
            let product = ready.iter().copied().filter(|i| self.asynchronous(instances[*i].unit)).max_by_key(|i| (height[*i], std::cmp::Reverse(*i)));
            let idles = |i: usize| needs(i) > 0 && needs(i) == flying.len();
            product.or_else(|| ready.into_iter().min_by_key(|i| (idles(*i), instances[*i].unit)))
        } {
            let instance = instances[next];
            if self.asynchronous(instance.unit) {
                events.push(Event::Issue(instance));
                flying.push(instance)
            } else {
                let needed = flying.iter().rposition(|g| self.dependent(*g, instance)).map_or(0, |k| k + 1);
                if needed > 0 {
                    let retired: Vec<Instance> = flying.drain(..needed).collect();
                    events.push(Event::Wait { younger: flying.len(), retired })
                }
                if !matches!(self.units[instance.unit], Unit::Retire(_)) {
                    events.push(Event::Work(instance))
                }
            }
            done[next] = true
        }
        (events, flying)
    }
}

/// Stages of operations, and groups of products with the same work waiting for them.
fn analyse(operations: &[Operation]) -> Result<Analysis<'_>, String> {
    let n = operations.len();
    let product = |i: usize| operations[i].kind == Kind::Product;
    // what an operation depends on within its step
    let mut depends: Vec<BTreeSet<usize>> = vec![];
    for i in 0..n {
        let direct = (0..i).filter(|j| operations[*j].conflicts(&operations[i]));
        let all = direct.flat_map(|j| depends[j].iter().copied().chain([j])).collect();
        depends.push(all)
    }
    let waiting = |i: usize| -> Vec<usize> { (0..n).filter(|j| !product(*j) && operations[i].conflicts(&operations[*j])).collect() };
    let cut: Vec<usize> = (0..n)
        .filter(|i| product(*i) && depends[*i].iter().any(|d| !product(*d)))
        .filter(|i| !(0..n).any(|other| product(other) && depends[other].contains(i)))
        .collect();
    let stage_of = |i: usize| cut.iter().any(|c| *c == i || depends[i].contains(c)) as i32;
    let (mut units, mut stages) = (vec![], vec![]);
    let mut groups: Vec<(Vec<usize>, i32, usize)> = vec![];
    for (i, before) in depends.iter().enumerate() {
        let stage = stage_of(i);
        if !product(i) {
            units.push(Unit::Single(i));
            stages.push(stage);
            continue;
        }
        let consumers = waiting(i);
        let found = groups.iter().find(|g| g.0 == consumers && g.1 == stage).map(|g| g.2);
        match found.map(|u| (u, &mut units[u])) {
            Some((_, Unit::Group(all))) if !all.iter().any(|other| before.contains(other)) => all.push(i),
            _ => {
                groups.push((consumers, stage, units.len()));
                units.push(Unit::Group(vec![i]));
                stages.push(stage)
            }
        }
    }
    for (consumers, stage, unit) in groups {
        if consumers.is_empty() {
            if stage > 0 {
                return Err("a product would have to move two steps".into());
            }
            units.push(Unit::Retire(unit));
            stages.push(stage + 1)
        }
    }
    Ok(Analysis { operations, units, stages })
}

/// The schedule of a loop over steps of these operations.
pub fn schedule(operations: &[Operation]) -> Result<Schedule, String> {
    let analysis = analyse(operations)?;
    if !analysis.stages.contains(&1) {
        return Err("no product of the loop can overlap other work".into());
    }
    let (mut prologue, flying) = analysis.order(analysis.instances(0, 0).collect(), &[]);
    prologue.retain(|e| !matches!(e, Event::Work(i) if matches!(analysis.units[i.unit], Unit::Single(o) if operations[o].kind == Kind::Move)));
    let earlier = |groups: &[Instance]| groups.iter().map(|g| Instance { offset: g.offset - 1, ..*g }).collect::<Vec<_>>();
    let mut at_head = earlier(&flying);
    let both = || analysis.instances(0, 0).chain(analysis.instances(1, -1)).collect::<Vec<_>>();
    // the groups in flight at the loop's head: a fixed point, as the first steps may have fewer
    for _ in 0..4 {
        let (body, after) = analysis.order(both(), &at_head);
        let next = earlier(&after);
        if next == at_head {
            let (mut tail, left) = analysis.order(analysis.instances(1, -1).collect(), &at_head);
            if !left.is_empty() {
                tail.push(Event::Wait { younger: 0, retired: left })
            }
            let labels = operations.iter().map(|o| o.label.clone()).collect();
            return Ok(Schedule { in_flight: at_head.len(), units: analysis.units, prologue, body, tail, labels });
        }
        at_head = next
    }
    Err("the loop has no steady state".into())
}

impl Schedule {
    /// The products of a group.
    pub fn products(&self, unit: usize) -> &[usize] {
        match &self.units[unit] {
            Unit::Group(all) => all,
            _ => &[],
        }
    }
    /// The operation of a unit that is no group.
    pub fn operation(&self, unit: usize) -> Option<usize> {
        match self.units[unit] {
            Unit::Single(o) => Some(o),
            _ => None,
        }
    }
    /// Whether a unit runs beside the next step's start.
    pub fn is_shifted(&self, unit: usize) -> bool {
        !self.prologue.iter().any(|e| matches!(e, Event::Issue(i) | Event::Work(i) if i.unit == unit))
    }
    /// Whether the step whose group the body retires is older than the one that it issues.
    pub fn lags(&self, unit: usize) -> bool {
        let issued = self.body.iter().find_map(|e| if let Event::Issue(i) = e { (i.unit == unit).then_some(i.offset) } else { None });
        let retired = self.body.iter().filter_map(|e| if let Event::Wait { retired, .. } = e { Some(retired) } else { None });
        let oldest = retired.flatten().filter(|i| i.unit == unit).map(|i| i.offset).min();
        matches!((issued, oldest), (Some(i), Some(o)) if o < i)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = |i: &Instance| {
            let labels: Vec<&str> = match &self.units[i.unit] {
                Unit::Group(all) => all.iter().map(|o| self.labels[*o].as_str()).collect(),
                Unit::Single(o) => vec![self.labels[*o].as_str()],
                Unit::Retire(_) => vec![],
            };
            labels.join(", ") + &if i.offset == 0 { String::new() } else { format!(" @{}", i.offset) }
        };
        for (title, events) in [("prologue", &self.prologue), ("body", &self.body), ("tail", &self.tail)] {
            let all: Vec<String> = events
                .iter()
                .map(|e| match e {
                    Event::Issue(i) => format!("issue {}", name(i)),
                    Event::Wait { younger, .. } => format!("wait<{younger}>"),
                    Event::Work(i) => name(i),
                })
                .collect();
            writeln!(f, "{title}: {}", all.join("; "))?
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::*;

    /// `kind label: reads -> writes`, values by one-word names.
    fn operations(lines: &[(Kind, &str, &str, &str)]) -> Vec<Operation> {
        let mut names: Vec<String> = vec![];
        let mut set = |words: &str| -> BTreeSet<Value> {
            let id = |w: &str| {
                let at = names.iter().position(|n| n == w).unwrap_or_else(|| {
                    names.push(w.into());
                    names.len() - 1
                });
                Value(at as u32)
            };
            words.split_whitespace().map(id).collect()
        };
        lines.iter().map(|(kind, label, reads, writes)| Operation { kind: *kind, label: (*label).into(), reads: set(reads), writes: set(writes) }).collect()
    }

    fn printed(lines: &[(Kind, &str, &str, &str)]) -> String {
        schedule(&operations(lines)).map_or_else(|e| e, |s| s.to_string())
    }

    const ATTENTION: [(Kind, &str, &str, &str); 7] = [
        (Product, "s = q k", "Q K", "s"),
        (Work, "frame", "s m", "m step"),
        (Move, "move l", "l step", "l"),
        (Move, "move o", "o step", "o"),
        (Work, "sum l", "s m l", "l"),
        (Work, "pack", "s m", "p"),
        (Product, "o += p v", "o p V", "o"),
    ];

    #[test]
    fn a_product_of_exponentials_runs_beside_the_next_steps_softmax() {
        assert_eq!(
            printed(&ATTENTION),
            "prologue: issue s = q k; wait<0>; frame; sum l; pack\n\
             body: issue s = q k; issue o += p v @-1; wait<1>; frame; move l; sum l; wait<0>; move o; pack\n\
             tail: issue o += p v @-1; wait<0>\n"
        )
    }

    #[test]
    fn a_product_that_no_work_waits_for_has_one_group_in_flight() {
        assert_eq!(printed(&[(Product, "c += a b", "A B c", "c")]), "prologue: issue c += a b\nbody: issue c += a b; wait<1>\ntail: wait<0>\n")
    }

    #[test]
    fn products_that_share_an_operand_are_issued_as_one_group() {
        assert_eq!(
            printed(&[(Product, "c += a b", "A B c", "c"), (Product, "d += a e", "A E d", "d")]),
            "prologue: issue c += a b, d += a e\nbody: issue c += a b, d += a e; wait<1>\ntail: wait<0>\n"
        )
    }

    #[test]
    fn a_chain_of_products_waits_for_the_operand_in_registers_to_be_free() {
        assert_eq!(
            printed(&[(Product, "s = q k", "Q K", "s"), (Work, "pack", "s", "p"), (Product, "o += p v", "o p V", "o")]),
            "prologue: issue s = q k; wait<0>; pack\n\
             body: issue o += p v @-1; issue s = q k; wait<0>; pack\n\
             tail: issue o += p v @-1; wait<0>\n"
        )
    }

    #[test]
    fn a_mapped_operand_is_made_while_the_product_of_the_last_step_runs() {
        let lines = [(Work, "load x", "X", "x"), (Work, "sum x^2", "x n", "n"), (Work, "pack", "x", "p"), (Product, "c += p b", "c p B", "c")];
        assert_eq!(
            printed(&lines),
            "prologue: load x; sum x^2; pack\n\
             body: issue c += p b @-1; load x; sum x^2; wait<0>; pack\n\
             tail: issue c += p b @-1; wait<0>\n"
        )
    }

    #[test]
    fn of_two_steps_laid_out_as_one_each_makes_its_operand_beside_the_product_of_the_other() {
        let step = |x, p| [(Work, "read", "X", x), (Work, "sum", x, "n"), (Work, "pack", x, p)];
        let (first, second) = (step("x", "p"), step("y", "q"));
        let products = [(Product, "c += p b", "c p B", "c"), (Product, "c += q b", "c q B", "c")];
        let lines: Vec<_> = first.into_iter().chain([products[0]]).chain(second).chain([products[1]]).collect();
        assert_eq!(
            printed(&lines),
            "prologue: read; sum; pack; issue c += p b; read; sum; pack\n\
             body: issue c += q b @-1; read; sum; wait<1>; pack; issue c += p b; read; sum; wait<1>; pack\n\
             tail: issue c += q b @-1; wait<0>\n"
        )
    }

    #[test]
    fn the_retired_slot_lags_where_a_group_stays_in_flight() {
        let s = schedule(&operations(&[(Product, "c += a b", "A B c", "c")])).unwrap();
        assert!(s.lags(0));
        let s = schedule(&operations(&ATTENTION)).unwrap();
        let groups: Vec<usize> = (0..s.units.len()).filter(|u| matches!(s.units[*u], Unit::Group(_))).collect();
        assert_eq!(groups.iter().map(|g| s.lags(*g)).collect::<Vec<_>>(), [false, false])
    }

    #[test]
    fn a_step_without_a_product_is_refused() {
        assert_eq!(printed(&[(Work, "sum", "x n", "n")]), "no product of the loop can overlap other work")
    }
}
