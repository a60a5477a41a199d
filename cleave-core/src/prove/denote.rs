//! What a row says: both sides as values, the guards as formulas.
//!
//! Comes in: a [`Row`], the value that the matcher interprets. Goes out: a [`Claim`]. Every set of axes becomes an index domain of
//! any extent and any rank (sets that may overlap are cut into cells first), so does every family; a term or a multiset becomes a
//! real function of the domains in which it may vary. A multiset of factors is a numerator and a denominator, whatever its members
//! are: both are products, and products of products are products. So one claim covers all ranks, extents and sizes.
//!
//! A value is a real number, or -inf (the logarithm of 0, the maximum of nothing), or none (1/0, the root or the logarithm of a
//! negative number). A factor that is exactly 0 wins over all others. Variables are real numbers.
use super::logic::Formula;
use super::normal::{Condition, Normal};
use super::poly::{Atom, Binder, Domain, Index, Poly};
use super::variables::{self, Kind, Variable, Variables, variables};
use crate::algebra::schema::{Axes, Guard, Place, Row, Term, Var};

/// What a side is at the positions at which the sides are compared.
#[derive(Clone, Debug)]
pub struct Value {
    /// It has no value.
    pub none: Formula,
    /// It is -inf.
    pub infinite: Formula,
    /// It is exactly 0.
    pub zero: Formula,
    /// The number that it is where it is one.
    pub real: Poly,
    /// The real expression is not to be trusted: an exponential of -inf, which is 0, lies within.
    pub improper: Formula,
}

/// An index domain of a claim.
#[derive(Clone, PartialEq, Debug)]
pub struct Space {
    pub name: String,
    /// The members of a family, or a cell of axes.
    pub family: bool,
    /// The family on a member of which the cell depends.
    pub within: Option<Domain>,
    /// The variables for axes that have this cell in common.
    pub axes: Vec<Var>,
}

/// A row as a statement about real numbers.
#[derive(Debug)]
pub struct Claim {
    pub spaces: Vec<Space>,
    /// The variables that stand for powers.
    pub powers: Vec<String>,
    pub left: Value,
    pub right: Value,
    /// What guards and forms give.
    pub given: Vec<Formula>,
    /// What the normaliser assumed.
    pub conditions: Vec<Condition>,
}

/// Why a row states nothing that could be proved.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Unclear {
    #[error("variable `{0}` is used where nothing binds it")]
    Unbound(Var),
    #[error("variable `{0}` stands for two things")]
    TwoThings(Var),
    #[error("both sides are the same")]
    Nothing,
    #[error("`{0}` cannot stand here")]
    Misplaced(String),
}

/// The current index of every domain, and what the second variable of a pair stands for.
#[derive(Clone)]
pub(super) struct Scope {
    pub at: Vec<Index>,
    pub other: Option<(Var, Var, Index)>,
}

/// A row on its way to a claim: [`super::value`] says what terms are, [`super::given`] what guards say.
pub(super) struct Denoter<'a> {
    pub row: &'a Row,
    pub variables: Variables,
    pub spaces: Vec<Space>,
    pub normal: Normal,
}

pub(super) type Result<T> = std::result::Result<T, Unclear>;

/// The claim that a row makes.
///
/// # Errors
/// If a side uses what nothing binds.
pub fn claim(row: &Row) -> Result<Claim> {
    let mut denoter = Denoter { row, variables: variables(row)?, spaces: vec![], normal: Normal::default() };
    denoter.cut();
    let scope = Scope { at: (0..denoter.spaces.len() as Domain).map(Index::free).collect(), other: None };
    let left = match row.replaces {
        None => denoter.term(&row.left, &scope)?,
        Some(v) => denoter.term(&Term::Any(v), &scope)?,
    };
    let right = denoter.term(&row.right, &scope)?;
    let mut given = denoter.given();
    given.extend(denoter.positions(&[&left, &right]));
    let powers = denoter.variables.iter().filter(|v| v.1.kind == Kind::Power).map(|v| v.0.to_string()).collect();
    Ok(Claim { powers, left, right, given, conditions: denoter.normal.conditions.clone(), spaces: denoter.spaces })
}

impl Denoter<'_> {
    pub(super) fn variable(&self, v: Var) -> Result<&Variable> {
        self.variables.get(&v).ok_or(Unclear::Unbound(v))
    }
    /// Makes the domains: every set of axes that are in some variables' sets and not in the others'.
    fn cut(&mut self) {
        let of_kind = |kind: Kind| self.variables.iter().filter(move |v| v.1.kind == kind).map(|v| (*v.0, v.1.family)).collect::<Vec<_>>();
        let axes = of_kind(Kind::Axes);
        let families: Vec<Var> = of_kind(Kind::Family).into_iter().map(|f| f.0).collect();
        let apart = variables::apart(self.row, true);
        let mut cells = vec![];
        for mask in 1u32..1 << axes.len() {
            let members: Vec<(Var, Option<Var>)> = axes.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, a)| *a).collect();
            if !members.iter().any(|v| members.iter().any(|w| apart.contains(&(v.0, w.0)))) {
                cells.push(members)
            }
        }
        let family_domain = |family: Var| (cells.len() + families.iter().position(|f| *f == family).unwrap_or(0)) as Domain;
        let cell = |members: &Vec<(Var, Option<Var>)>| Space {
            name: members.iter().map(|m| m.0.to_string()).collect::<Vec<_>>().join("&"),
            family: false,
            within: members.iter().find_map(|m| m.1).map(family_domain),
            axes: members.iter().map(|m| m.0).collect(),
        };
        self.spaces = cells.iter().map(cell).collect();
        self.spaces.extend(families.iter().map(|f| Space { name: f.to_string(), family: true, within: None, axes: vec![] }))
    }
    pub(super) fn family(&self, v: Var) -> Result<Domain> {
        let named = |s: &Space| s.family && s.name == v.to_string();
        self.spaces.iter().position(named).map(|i| i as Domain).ok_or(Unclear::Unbound(v))
    }
    /// Domains along which a guard says that a variable does not vary.
    fn fixed(&self, v: Var) -> Vec<Domain> {
        let sets = self.row.guards.iter().filter_map(|g| match g {
            Guard::Disjoint(Place::Axes(a), Place::Free(x)) | Guard::Disjoint(Place::Free(x), Place::Axes(a)) if *x == v => Some(*a),
            _ => None,
        });
        let sets: Vec<Var> = sets.collect();
        (0..self.spaces.len() as Domain).filter(|d| self.spaces[*d as usize].axes.iter().any(|a| sets.contains(a))).collect()
    }
    /// A member's own variable is used within its family alone.
    fn in_scope(&self, v: Var, scope: &Scope) -> Result<()> {
        match self.variable(v)?.family {
            Some(f) if scope.at[self.family(f)? as usize].id == 0 => Err(Unclear::Unbound(v)),
            _ => Ok(()),
        }
    }
    /// The variable at the current indices.
    pub(super) fn atom(&self, v: Var, suffix: &str, scope: &Scope) -> Result<Atom> {
        let (v, second) = match scope.other {
            Some((other, real, index)) if other == v => (real, Some(index)),
            _ => (v, None),
        };
        let variable = self.variable(v)?;
        self.in_scope(v, scope)?;
        let fixed = self.fixed(v);
        let scalar = matches!(variable.kind, Kind::Power | Kind::Coefficient);
        let mut arguments = vec![];
        for (d, space) in self.spaces.iter().enumerate() {
            let mine = match variable.family {
                Some(f) => space.family && space.name == f.to_string(),
                None => false,
            };
            if mine {
                arguments.push(second.unwrap_or(scope.at[d]))
            } else if !space.family && !scalar && !fixed.contains(&(d as Domain)) && (space.within.is_none() || variable.family.is_some()) {
                arguments.push(scope.at[d])
            }
        }
        Ok(Atom { name: format!("{v}{suffix}"), arguments })
    }
    pub(super) fn binder(&mut self, domain: Domain, scope: &Scope) -> Binder {
        let within = self.spaces[domain as usize].within.map(|f| scope.at[f as usize]);
        let unnamed = Binder { index: Index::free(domain), within };
        Binder { index: self.normal.fresh(unnamed), within }
    }
    pub(super) fn bound(scope: &Scope, binders: &[Binder]) -> Scope {
        let mut scope = scope.clone();
        binders.iter().for_each(|b| scope.at[b.index.domain as usize] = b.index);
        scope
    }
    pub(super) fn cells(&self, axes: &Axes, scope: &Scope) -> Result<Vec<Domain>> {
        let vars = match axes {
            Axes::Is(v) => vec![*v],
            Axes::Both(v, w) => vec![*v, *w],
        };
        for v in &vars {
            if self.variable(*v)?.kind != Kind::Axes {
                return Err(Unclear::TwoThings(*v));
            }
            self.in_scope(*v, scope)?
        }
        Ok((0..self.spaces.len() as Domain).filter(|d| self.spaces[*d as usize].axes.iter().any(|a| vars.contains(a))).collect())
    }
}
