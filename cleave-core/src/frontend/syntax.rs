//! A kernel as written: the part of Rust's syntax that the language has, with the place of each word. Names are not yet
//! resolved. Made by [`attribute`](super::attribute), [`signature`](super::signature) and [`parse`](super::parse).
use super::report::Place;
use crate::dtype::DType;
use crate::rational::Rational;
use proc_macro2::Ident;

/// An annotated function.
pub struct Source {
    pub name: Ident,
    pub attribute: Attribute,
    pub signature: Signature,
    pub body: Block,
    /// The composites and the crate's helpers that it calls.
    pub library: Vec<Function>,
    /// Helpers that could not be read; reported.
    pub faulty: Vec<String>,
}

/// The attribute's arguments.
#[derive(Default)]
pub struct Attribute {
    /// `dtypes(T = f16, bf16)`
    pub dtypes: Vec<(Ident, Vec<DType>)>,
    /// `bound(D <= 256)`
    pub bounds: Vec<(Ident, usize)>,
    /// `factor(P = 2)`: a constant factor of stored axes, unrolled.
    pub factors: Vec<(Ident, u32)>,
}

#[derive(Default)]
pub struct Signature {
    /// Generic element types.
    pub generics: Vec<Ident>,
    pub arguments: Vec<Argument>,
    /// Arguments whose types are no types of arguments; reported.
    pub faulty: Vec<Ident>,
    pub results: Vec<Tensor>,
    /// Results as declared, faulty ones included.
    pub promised: usize,
    /// `-> (A, B)`, also with one member.
    pub tuple: bool,
}

impl Signature {
    /// The arguments that the kernel writes over.
    pub fn in_place(&self) -> impl Iterator<Item = (usize, &Argument)> {
        self.arguments.iter().enumerate().filter(|a| a.1.form == Form::InPlace)
    }
}

pub struct Argument {
    pub name: Ident,
    pub tensor: Tensor,
    pub form: Form,
}

/// What kind of value an argument is.
#[derive(Clone, PartialEq, Debug)]
pub enum Form {
    Tensor,
    /// `x: &mut Tensor<T, M, C>`: the kernel writes over it.
    InPlace,
    /// `scale: f32`: no tensor, though the same without dimensions.
    Scalar,
    /// `head_dim: Extent<D>`
    Extent(Ident),
}

/// `Tensor<T, B, (K, G), M>`.
pub struct Tensor {
    pub element: ElementName,
    /// The factors of each stored dimension, the left outermost.
    pub dims: Vec<Vec<Ident>>,
    pub place: Place,
}

pub enum ElementName {
    Type(DType),
    Generic(Ident),
}

/// A helper: `fn scaled<A>(x: Value) -> Value { .. }`.
pub struct Function {
    pub name: Ident,
    /// Of the crate, under `#[cleave::function]`: its text is elsewhere.
    pub shared: bool,
    /// Each stands for one axis or for several.
    pub axes: Vec<Ident>,
    pub parameters: Vec<(Ident, Shape)>,
    pub result: (Shape, Place),
    pub body: Block,
}

/// What a helper takes or gives: `Value`, `bool`, or a tuple of them.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    Value,
    Truth,
    Tuple(Vec<Shape>),
}

pub struct Constant {
    pub name: Ident,
    pub integer: bool,
    pub value: Expr,
}

pub struct Block {
    pub functions: Vec<Function>,
    pub constants: Vec<Constant>,
    pub statements: Vec<Statement>,
    pub value: Box<Expr>,
}

pub enum Statement {
    Let(Pattern, Expr),
    Assert(Assertion),
    /// `assume!(a == b, "message")`
    Assume(Assertion),
    /// `*x = value;`, or `*x += value;` and its kin.
    Assign {
        target: Ident,
        operator: Option<Arithmetic>,
        value: Expr,
    },
}

/// `assert!(condition, "message")`
pub struct Assertion {
    pub condition: Expr,
    pub message: Option<String>,
}

pub enum Pattern {
    Name(Ident),
    Ignore,
    Tuple(Vec<Pattern>, Place),
}

pub struct Expr {
    pub kind: ExprKind,
    pub place: Place,
}

pub enum ExprKind {
    Number {
        value: Rational,
        integer: bool,
    },
    Truth(bool),
    Name(Ident),
    /// `*x` of an argument that is written in place.
    Current(Ident),
    /// `function::<axes>(arguments)`; each of `axes` is one axis or a tuple of them.
    Call {
        function: Ident,
        axes: Vec<Vec<Ident>>,
        arguments: Vec<Expr>,
    },
    Negate(Box<Expr>),
    Not(Box<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Block(Block),
    Tuple(Vec<Expr>),
    /// Already reported.
    Faulty,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}
