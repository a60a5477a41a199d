//! Statements on values in registers.
use super::*;
use crate::frame::Statistic;

impl Writer<'_> {
    pub(super) fn statement(&mut self, s: &Statement) -> Result<(), Refusal> {
        match s {
            Statement::Load { node, .. } => self.load(*node),
            // in registers since the loop that kept it
            Statement::Recall { .. } => Ok(()),
            // a predicate is tested where it selects
            Statement::Map { node } if matches!(self.cx.part.graph.op(*node), Op::Predicate(_)) => Ok(()),
            Statement::Map { node } if self.inlined.contains(node) => Ok(()),
            Statement::Map { node } => {
                self.map(*node);
                Ok(())
            }
            Statement::Reduce { node, over } => {
                self.declare(*node, Form::Floats);
                let identity = self.identity(*node);
                self.fill(*node, identity);
                self.accumulate(*node, *over);
                Ok(())
            }
            Statement::Fold { node, over } => {
                self.accumulate(*node, *over);
                Ok(())
            }
            Statement::Rebase { frame } => self.rebase(*frame),
            Statement::Loop(l) => self.enter(l, false).map(|_| ()),
            Statement::Store { output, store, first } => {
                self.store(*output, *store, *first);
                Ok(())
            }
        }
    }
    /// Opens loops over every element of a value; gives how many to close, and its element.
    pub(super) fn open_value(&mut self, node: NodeId) -> (usize, String) {
        let dims = self.cx.part.of(node);
        let mut n = self.open_unrolled(dims);
        let mut element = format!("{}{}", self.cx.value_name(node), self.indices(dims));
        if self.varies(node) {
            n += self.open_chunks() + self.open_elements();
            element += "[chunk][e]"
        }
        (n, element)
    }
    /// Opens loops over the chunks and elements of the lane dim; where it is `asked`, over those alone that count: by a branch for a whole chunk, or by a
    /// condition for an element, if a predicate cuts the loop.
    fn open_counted(&mut self, asked: bool, conditions: &mut Vec<String>) -> usize {
        let mut n = self.open_chunks();
        let cut = self.loops.iter().rfind(|l| l.0 == self.shape.lane).is_some_and(|l| l.2);
        match (asked, cut) {
            (true, true) => conditions.push(self.counts()),
            (true, false) => {
                let counts = self.counts();
                self.code.open(format!("if ({counts}) {{"));
                n += 1
            }
            (false, _) => {}
        }
        n + self.open_elements()
    }
    pub(super) fn fill(&mut self, node: NodeId, value: &str) {
        let (n, element) = self.open_value(node);
        self.code.line(format!("{element} = {value};"));
        self.close(n)
    }
    fn map(&mut self, node: NodeId) {
        if !self.held.contains_key(&node) {
            self.declare(node, Form::Floats)
        }
        let (n, element) = self.open_value(node);
        let x = self.cx.operation(&Element(self), node);
        self.code.line(format!("{element} = {x};"));
        self.close(n)
    }
    /// Adds a tile's reduction to registers that hold its identity or a running value: along the lane dim, this thread's share.
    fn accumulate(&mut self, node: NodeId, over: DimSet) {
        let g = &self.cx.part.graph;
        let operands = g.operands(node).to_vec();
        let maximum = matches!(g.op(node), Op::Maximum(_));
        let lane = self.shape.lane;
        let along = over.contains(lane);
        let mut n = self.open_unrolled(self.cx.part.of(node).union(over));
        let mut conditions = vec![];
        if along {
            // what lies beyond a row in registers is not worth computing, even where it adds nothing
            let asked = maximum || !self.vanishes(operands[0], lane) || self.shape.home == Home::Registers;
            n += self.open_counted(asked, &mut conditions)
        } else if self.varies(node) {
            n += self.open_chunks() + self.open_elements()
        }
        let dims = self.indices(self.cx.part.of(node));
        let total = format!("{}{dims}{}", self.cx.value_name(node), if self.varies(node) { "[chunk][e]" } else { "" });
        let x = self.element(operands[0]);
        conditions.extend(operands[1..].iter().map(|p| format!("({})", self.cx.condition(&Element(self), *p))));
        if let Some(d) = self.shape.share.filter(|d| over.contains(*d))
            && (maximum || !self.vanishes(operands[0], d))
        {
            conditions.extend(self.rows_inside(DimSet::of(d)))
        }
        let x = if conditions.is_empty() { x } else { format!("{} ? {x} : {}", conditions.join(" && "), self.identity(node)) };
        self.code.line(match maximum {
            true => format!("{total} = cleave::greater({total}, {x});"),
            false if conditions.is_empty() => format!("{total} += {x};"),
            false => format!("{total} += ({x});"),
        });
        self.close(n)
    }
    /// The frame of this thread's share of a state moves to suit the tile's keys, and its members with it.
    fn rebase(&mut self, frame: NodeId) -> Result<(), Refusal> {
        let g = &self.cx.part.graph;
        let Op::Frame(row, axes) = g.op(frame) else { return Err(format!("t{} is no frame", frame.0)) };
        let row = *row;
        let over = self.cx.part.dims_of(*axes);
        let operands = g.operands(frame).to_vec();
        let dims = self.cx.part.of(frame);
        let outer = self.open_frame(frame);
        let at = self.value_at(frame);
        self.code.open("{");
        self.code.line(match row.statistic {
            Statistic::Greatest => "float key = -cleave::infinity();",
            Statistic::Mean => "float key = 0.0f, count = 0.0f;",
        });
        let mut n = self.open_unrolled(over.difference(dims));
        let mut conditions = vec![];
        if over.contains(self.shape.lane) {
            n += self.open_counted(true, &mut conditions)
        }
        let x = self.element(operands[0]);
        conditions.extend(operands[1..].iter().map(|p| format!("({})", self.cx.condition(&Element(self), *p))));
        conditions.extend(self.rows_inside(over));
        let condition = if conditions.is_empty() { "true".into() } else { conditions.join(" && ") };
        self.code.line(match row.statistic {
            Statistic::Greatest => format!("key = cleave::greater(key, {condition} ? {x} : -cleave::infinity());"),
            Statistic::Mean => format!("if ({condition}) {{ key += {x}; count += 1.0f; }}"),
        });
        self.close(n);
        if row.statistic == Statistic::Mean {
            self.code.line("key = count > 0.0f ? key / count : cleave::not_a_number();")
        }
        self.code.line(format!("const float before = {at};"));
        self.code.line(format!("{at} = {};", (row.code.merge)("before", &(row.code.suited)("key"))));
        let state = self.state_of(frame)?;
        self.transport(&state, "before", &at);
        self.code.close("}");
        self.close(outer);
        Ok(())
    }
}
