//! What a name means at a place: values and axes of the function at hand, items of the blocks around it.
use super::syntax::{Block, Constant, Function};
use super::term::TermId;
use crate::axis::AxisId;
use std::collections::HashMap;
use std::rc::Rc;

/// What an expression stands for.
#[derive(Clone, Debug)]
pub enum Value {
    Term(TermId),
    Tuple(Vec<Value>),
    /// Already reported.
    Faulty,
}

/// The functions and constants of a block, and of those around it. As in Rust they see each other, and no `let` of the function
/// around them.
pub struct Items<'a> {
    functions: HashMap<String, &'a Function>,
    constants: HashMap<String, &'a Constant>,
    around: Option<Rc<Items<'a>>>,
    /// The composites: faults in them are blamed on the call.
    pub library: bool,
}

impl<'a> Items<'a> {
    pub fn library(functions: &'a [Function]) -> Rc<Self> {
        let functions = functions.iter().map(|f| (f.name.to_string(), f)).collect();
        Rc::new(Items { functions, constants: HashMap::new(), around: None, library: true })
    }
    pub fn inside(around: &Rc<Items<'a>>, block: &'a Block) -> Rc<Self> {
        if block.functions.is_empty() && block.constants.is_empty() {
            return around.clone();
        }
        let functions = block.functions.iter().map(|f| (f.name.to_string(), f)).collect();
        let constants = block.constants.iter().map(|c| (c.name.to_string(), c)).collect();
        Rc::new(Items { functions, constants, around: Some(around.clone()), library: false })
    }
    /// The function, and the items that its body sees.
    pub fn function(self: &Rc<Self>, name: &str) -> Option<(&'a Function, Rc<Items<'a>>)> {
        match self.functions.get(name) {
            Some(f) => Some((f, self.clone())),
            None => self.around.as_ref()?.function(name),
        }
    }
    pub fn constant(self: &Rc<Self>, name: &str) -> Option<(&'a Constant, Rc<Items<'a>>)> {
        match self.constants.get(name) {
            Some(c) => Some((c, self.clone())),
            None => self.around.as_ref()?.constant(name),
        }
    }
    pub fn function_names(&self) -> Vec<String> {
        let around = self.around.iter().flat_map(|i| i.function_names());
        self.functions.keys().cloned().chain(around).collect()
    }
    pub fn constant_names(&self) -> Vec<String> {
        let around = self.around.iter().flat_map(|i| i.constant_names());
        self.constants.keys().cloned().chain(around).collect()
    }
}

/// Names inside one function's body.
pub struct Scope<'a> {
    pub items: Rc<Items<'a>>,
    /// The innermost last.
    pub values: Vec<(String, Value)>,
    /// The helper's axis parameters, and what they stand for at this call.
    pub axes: Vec<(String, Vec<AxisId>)>,
}

impl Scope<'_> {
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.iter().rev().find(|v| v.0 == name).map(|v| &v.1)
    }
}
