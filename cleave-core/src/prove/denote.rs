//! What a row says: both sides as values, the guards as formulas.
//!
//! Comes in: a [`Row`], the value that the matcher interprets. Goes out: a [`Claim`]. Every set of axes becomes an index domain of
//! any extent and any rank (sets that may overlap are cut into cells first), so does every family; a term or a multiset becomes a
//! real function of the domains in which it may vary. A multiset of factors is a numerator and a denominator, whatever its members
//! are: both are products, and products of products are products. So one claim covers all ranks, extents and sizes.
//!
//! A value is a real number, or -inf (the logarithm of 0, the maximum of nothing), or none (1/0, the root or the logarithm of a
//! negative number). A factor that is exactly 0 wins over all others. Variables are real numbers.
use super::logic::{Formula, all, any, nonnegative, positive, positive_power, power_is, whole, zero};
use super::normal::{Condition, Normal};
use super::poly::{Atom, Base, Binder, Domain, Exponent, Index, Mentions, Poly};
use super::variables::{self, Kind, Variable, Variables, variables};
use crate::algebra::schema::{Addend, Axes, Coefficient, Factor, Guard, Place, Power, Row, Term, Var};
use crate::graph::Function;
use crate::rational::Rational;
use std::collections::{BTreeMap, BTreeSet};

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
struct Scope {
    at: Vec<Index>,
    other: Option<(Var, Var, Index)>,
}

struct Denoter<'a> {
    row: &'a Row,
    variables: Variables,
    spaces: Vec<Space>,
    normal: Normal,
}

type Result<T> = std::result::Result<T, Unclear>;

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
    fn variable(&self, v: Var) -> Result<&Variable> {
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
    fn family(&self, v: Var) -> Result<Domain> {
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
    fn atom(&self, v: Var, suffix: &str, scope: &Scope) -> Result<Atom> {
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
    fn binder(&mut self, domain: Domain, scope: &Scope) -> Binder {
        let within = self.spaces[domain as usize].within.map(|f| scope.at[f as usize]);
        let unnamed = Binder { index: Index::free(domain), within };
        Binder { index: self.normal.fresh(unnamed), within }
    }
    fn bound(scope: &Scope, binders: &[Binder]) -> Scope {
        let mut scope = scope.clone();
        binders.iter().for_each(|b| scope.at[b.index.domain as usize] = b.index);
        scope
    }
    fn cells(&self, axes: &Axes, scope: &Scope) -> Result<Vec<Domain>> {
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

    // ---- values -------------------------------------------------------------------------------------------------

    fn plain(real: Poly) -> Value {
        Value { none: Formula::False, infinite: Formula::False, zero: zero(&real), real, improper: Formula::False }
    }
    fn term(&mut self, term: &Term, scope: &Scope) -> Result<Value> {
        match term {
            Term::Any(v) => match self.variable(scope.other.filter(|o| o.0 == *v).map_or(*v, |o| o.1))?.kind {
                Kind::Named(inner) => self.term(&inner, scope),
                Kind::Factors => self.product(&[Factor::Many(*v)], scope),
                Kind::Term | Kind::Addends => Ok(Self::plain(Poly::atom(self.atom(*v, "", scope)?))),
                _ => Err(Unclear::TwoThings(*v)),
            },
            Term::Named(_, inner) => self.term(inner, scope),
            Term::Product(factors) => self.product(factors, scope),
            Term::Linear(addends) => self.linear(addends, scope),
            Term::Sum(axes, x) => {
                let binders: Vec<Binder> = self.cells(axes, scope)?.into_iter().map(|d| self.binder(d, scope)).collect();
                let x = self.term(x, &Self::bound(scope, &binders))?;
                let none = x.none.somewhere(&binders);
                let infinite = none.clone().not().and(x.infinite.somewhere(&binders));
                let real = self.normal.sum(&binders, &x.real);
                let zero = all([none.clone().not(), infinite.clone().not(), zero(&real)]);
                Ok(Value { none, infinite, zero, real, improper: x.improper.somewhere(&binders) })
            }
            Term::Maximum(axes, x, predicates) => {
                let binders: Vec<Binder> = self.cells(axes, scope)?.into_iter().map(|d| self.binder(d, scope)).collect();
                let inner = Self::bound(scope, &binders);
                let x = self.term(x, &inner)?;
                let predicates: Vec<Atom> = predicates.iter().map(|p| self.atom(*p, "", &inner)).collect::<Result<_>>()?;
                let visible = all(predicates.iter().cloned().map(Formula::Holds));
                let none = visible.clone().and(x.none).somewhere(&binders);
                // of nothing too
                let infinite = none.clone().not().and(visible.clone().implies(x.infinite.clone()).everywhere(&binders));
                let improper = visible.and(x.improper.or(x.infinite)).somewhere(&binders);
                let real = self.normal.maximum(&binders, &predicates, &x.real);
                let zero = all([none.clone().not(), infinite.clone().not(), zero(&real)]);
                Ok(Value { none, infinite, zero, real, improper })
            }
            Term::Apply(function, x) => {
                let x = self.term(x, scope)?;
                Ok(self.apply(*function, x))
            }
            Term::Greatest(all_of) => {
                let values: Vec<Value> = all_of.iter().map(|x| self.term(x, scope)).collect::<Result<_>>()?;
                let none = any(values.iter().map(|v| v.none.clone()));
                let infinite = none.clone().not().and(all(values.iter().map(|v| v.infinite.clone())));
                let improper = any(values.iter().flat_map(|v| [v.improper.clone(), v.infinite.clone()]));
                let reals: Vec<Poly> = values.iter().map(|v| v.real.clone()).collect();
                let real = self.normal.greatest(&reals);
                Ok(Value { zero: all([none.clone().not(), infinite.clone().not(), zero(&real)]), none, infinite, real, improper })
            }
            Term::AtLeastZero(x) => {
                let x = self.term(x, scope)?;
                let none = x.none.or(x.infinite);
                let real = match x.real.as_number() {
                    Some(k) => Poly::number(if k.is_negative() { Rational::ZERO } else { Rational::ONE }),
                    None => Poly::base(Base::AtLeastZero(x.real)),
                };
                Ok(Value { zero: none.clone().not().and(zero(&real)), none, infinite: Formula::False, real, improper: x.improper })
            }
            Term::Size(v) => {
                let mut real = Poly::one();
                for d in self.cells(&Axes::Is(*v), scope)? {
                    let within = self.spaces[d as usize].within.map(|f| scope.at[f as usize]);
                    real = self.normal.mul(&real, &Poly::base(Base::Size(d, within)))
                }
                Ok(Self::plain(real))
            }
            Term::Number(n) => Ok(Self::plain(Poly::number(Rational::integer(*n)))),
        }
    }
    fn apply(&mut self, function: Function, x: Value) -> Value {
        let real = self.normal.apply(function, &x.real);
        match function {
            Function::Exp => {
                Value { zero: x.none.clone().not().and(x.infinite.clone()), none: x.none, infinite: Formula::False, real, improper: x.improper.or(x.infinite) }
            }
            Function::Log => {
                let none = any([x.none, x.infinite, x.zero.clone().not().and(positive(&x.real).not())]);
                let infinite = none.clone().not().and(x.zero);
                let zero = all([none.clone().not(), infinite.clone().not(), zero(&real)]);
                Value { none, infinite, zero, real, improper: x.improper }
            }
            Function::Tanh | Function::Sigmoid | Function::Abs | Function::Round(_) => {
                let none = x.none.or(x.infinite);
                Value { zero: none.clone().not().and(zero(&real)), none, infinite: Formula::False, real, improper: x.improper }
            }
        }
    }
    fn exponent(&self, power: &Power, scope: &Scope) -> Result<Exponent> {
        Ok(match power {
            Power::Is(n) => Exponent::number(*n as i32),
            Power::Any(v) | Power::Even(v) => Exponent::symbol(self.atom(*v, "", scope)?),
            Power::Total(v, w) => Exponent::symbol(self.atom(*v, "", scope)?).add(&Exponent::symbol(self.atom(*w, "", scope)?)),
        })
    }
    fn product(&mut self, factors: &[Factor], scope: &Scope) -> Result<Value> {
        let mut parts = vec![];
        for f in factors {
            parts.push(self.factor(f, scope)?)
        }
        let zero = any(parts.iter().map(|p| p.zero.clone()));
        let fine = all(parts.iter().map(|p| p.fine.clone()));
        let alone = |i: usize| {
            let others = parts.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, p)| p.fine.clone().and(positive(&p.real)));
            parts[i].infinite.clone().and(all(others))
        };
        let infinite = zero.clone().not().and(any((0..parts.len()).map(alone)));
        let none = any([zero.clone(), fine, infinite.clone()]).not();
        let mut real = Poly::one();
        for p in &parts {
            real = self.normal.mul(&real, &p.real)
        }
        Ok(Value { none, infinite, zero, real, improper: any(parts.into_iter().map(|p| p.improper)) })
    }
    fn factor(&mut self, factor: &Factor, scope: &Scope) -> Result<Part> {
        match factor {
            Factor::Many(v) => self.factor(&Factor::One(Term::Any(*v), Power::Is(2)), scope),
            Factor::One(term, power) => {
                let e = self.exponent(power, scope)?;
                if let Term::Any(v) = term
                    && let Ok(Variable { kind: Kind::Factors, .. }) = self.variable(*v)
                {
                    return self.multiset(*v, &e, scope);
                }
                let x = self.term(term, scope)?;
                let up = positive_power(&e);
                Ok(Part {
                    zero: up.clone().and(x.zero.clone()),
                    fine: all([x.none.clone().not(), x.infinite.clone().not(), whole(&e).or(nonnegative(&x.real)), up.or(x.zero.clone().not())]),
                    infinite: x.none.not().and(x.infinite).and(power_is(&e, 2)),
                    real: self.normal.power(&x.real, &e),
                    improper: x.improper,
                })
            }
            Factor::Every(family, term, power) => {
                let binder = self.binder(self.family(*family)?, scope);
                let inner = Self::bound(scope, &[binder]);
                let part = self.factor(&Factor::One(**term, *power), &inner)?;
                Ok(Part {
                    zero: part.zero.somewhere(&[binder]),
                    fine: part.fine.everywhere(&[binder]),
                    infinite: Formula::False,
                    real: self.normal.product_over(binder, &part.real),
                    improper: part.improper.or(part.infinite).somewhere(&[binder]),
                })
            }
        }
    }
    fn multiset(&mut self, v: Var, e: &Exponent, scope: &Scope) -> Result<Part> {
        let numerator = Poly::atom(self.atom(v, "", scope)?);
        let denominator = Poly::atom(self.atom(v, "/", scope)?);
        let rooted = whole(e).or(Formula::Holds(self.atom(v, ">=0", scope)?));
        let up = positive_power(e);
        let down = up.clone().not();
        let (top, bottom) = (self.normal.power(&numerator, e), self.normal.power(&denominator, &e.times(-1)));
        Ok(Part {
            zero: up.clone().and(zero(&numerator)).or(down.clone().and(zero(&denominator))),
            fine: all([Formula::Holds(self.atom(v, "'s roots", scope)?), rooted, up.implies(zero(&denominator).not()), down.implies(zero(&numerator).not())]),
            infinite: Formula::False,
            real: self.normal.mul(&top, &bottom),
            improper: Formula::False,
        })
    }
    fn coefficient(&mut self, k: &Coefficient, scope: &Scope) -> Result<Poly> {
        Ok(match k {
            Coefficient::One => Poly::one(),
            Coefficient::MinusOne => Poly::number(Rational::MINUS_ONE),
            Coefficient::Number(k) => Poly::number(*k),
            Coefficient::Any(v) => Poly::atom(self.atom(*v, "", scope)?),
            Coefficient::Minus(v) => {
                let k = Poly::atom(self.atom(*v, "", scope)?);
                self.normal.scale(&k, Rational::MINUS_ONE)
            }
            Coefficient::HalfOf(v) => {
                let e = Exponent::symbol(self.atom(*v, "", scope)?);
                self.normal.half_of(&e)
            }
        })
    }
    fn linear(&mut self, addends: &[Addend], scope: &Scope) -> Result<Value> {
        let mut sum = Self::plain(Poly::zero());
        let mut infinite = Formula::False;
        for a in addends {
            let x = self.addend(a, scope)?;
            sum.none = sum.none.or(x.none);
            infinite = infinite.or(x.infinite);
            sum.improper = sum.improper.or(x.improper);
            sum.real = self.normal.add(&sum.real, &x.real)
        }
        sum.infinite = sum.none.clone().not().and(infinite);
        sum.zero = all([sum.none.clone().not(), sum.infinite.clone().not(), zero(&sum.real)]);
        Ok(sum)
    }
    fn addend(&mut self, addend: &Addend, scope: &Scope) -> Result<Value> {
        match addend {
            Addend::Many(v) => self.term(&Term::Any(*v), scope),
            Addend::One(k, term) => {
                let k = self.coefficient(k, scope)?;
                let x = self.term(term, scope)?;
                Ok(Value { none: x.none.or(x.infinite.clone().and(positive(&k).not())), real: self.normal.mul(&k, &x.real), ..x })
            }
            Addend::Every(family, k, term) => self.every(*family, k, term, scope),
            Addend::Groups(family, v) => self.every(*family, &Coefficient::One, &Term::Any(*v), scope),
            Addend::Pairs(family, (v, other), k, term) => {
                let first = self.binder(self.family(*family)?, scope);
                let second = self.binder(first.index.domain, scope);
                let inner = Scope { other: Some((*other, *v, second.index)), ..Self::bound(scope, &[first]) };
                let x = self.term(term, &inner)?;
                // 2 * the sum over pairs is the sum over both less the sum over equal ones, for what is the same either way
                let swap = BTreeMap::from([(first.index, second.index), (second.index, first.index)]);
                if self.normal.rename(&x.real, &swap) != x.real {
                    self.normal.conditions.push(Condition::Never)
                }
                let diagonal = self.normal.rename(&x.real, &BTreeMap::from([(second.index, first.index)]));
                let (square, diagonal) = (self.normal.sum(&[first, second], &x.real), self.normal.sum(&[first], &diagonal));
                let less = self.normal.scale(&diagonal, Rational::MINUS_ONE);
                let both = self.normal.add(&square, &less);
                let half = Rational::new(*k as i128, 2).unwrap_or(Rational::ZERO);
                Ok(Value {
                    none: x.none.or(x.infinite).somewhere(&[first, second]),
                    infinite: Formula::False,
                    real: self.normal.scale(&both, half),
                    improper: x.improper.somewhere(&[first, second]),
                    zero: Formula::False,
                })
            }
        }
    }

    fn every(&mut self, family: Var, k: &Coefficient, term: &Term, scope: &Scope) -> Result<Value> {
        let binder = self.binder(self.family(family)?, scope);
        let x = self.addend(&Addend::One(*k, *term), &Self::bound(scope, &[binder]))?;
        Ok(Value {
            none: x.none.somewhere(&[binder]),
            infinite: x.infinite.somewhere(&[binder]),
            real: self.normal.sum(&[binder], &x.real),
            improper: x.improper.somewhere(&[binder]),
            zero: Formula::False,
        })
    }

    // ---- guards -------------------------------------------------------------------------------------------------

    /// All positions at which the formula speaks of a variable.
    fn throughout(&mut self, make: impl Fn(&mut Self, &Scope) -> Result<Formula>) -> Formula {
        let free = Scope { at: (0..self.spaces.len() as Domain).map(Index::free).collect(), other: None };
        let mut binders: Vec<Binder> = vec![];
        let mut scope = free;
        // families first: cells may depend on a member
        let order = (0..self.spaces.len()).filter(|d| self.spaces[*d].family).chain((0..self.spaces.len()).filter(|d| !self.spaces[*d].family));
        for d in order.collect::<Vec<_>>() {
            let b = self.binder(d as Domain, &scope);
            scope.at[d] = b.index;
            binders.push(b)
        }
        let Ok(formula) = make(self, &scope) else { return Formula::True };
        let mut used = formula.indices();
        used.extend(binders.iter().filter(|b| used.contains(&b.index)).filter_map(|b| b.within).collect::<Vec<_>>());
        binders.retain(|b| used.contains(&b.index));
        formula.everywhere(&binders)
    }
    fn given(&mut self) -> Vec<Formula> {
        let mut given = vec![];
        for (v, variable) in self.variables.clone() {
            given.push(match variable.kind {
                // neither is ever 0 in a normal form
                Kind::Power => self.throughout(|d, s| Ok(power_is(&Exponent::symbol(d.atom(v, "", s)?), 0).not())),
                Kind::Coefficient => self.throughout(|d, s| Ok(zero(&Poly::atom(d.atom(v, "", s)?)).not())),
                Kind::Factors => self.throughout(|d, s| {
                    let members = Formula::Holds(d.atom(v, ">=0", s)?);
                    let (top, bottom) = (Poly::atom(d.atom(v, "", s)?), Poly::atom(d.atom(v, "/", s)?));
                    let roots = Formula::Holds(d.atom(v, "'s roots", s)?);
                    Ok(members.implies(all([nonnegative(&top), nonnegative(&bottom), roots])))
                }),
                _ => Formula::True,
            })
        }
        for v in variables::whole_powers(self.row) {
            given.push(self.throughout(|d, s| Ok(whole(&Exponent::symbol(d.atom(v, "", s)?)))))
        }
        for guard in self.row.guards {
            given.push(self.throughout(|d, s| d.guard(guard, s)))
        }
        given.retain(|g| *g != Formula::True);
        given
    }
    /// The sides are compared at positions that there are.
    fn positions(&self, sides: &[&Value]) -> Vec<Formula> {
        let mut used = BTreeSet::new();
        for side in sides {
            used.extend(side.real.outer());
            [&side.none, &side.infinite, &side.zero].into_iter().for_each(|f| f.mentions(&mut used))
        }
        let within = |i: &Index| self.spaces[i.domain as usize].within.map(Index::free);
        used.iter().filter(|i| i.id == 0).map(|i| Formula::Inside(Binder { index: *i, within: within(i) })).collect()
    }
    fn guard(&mut self, guard: &Guard, scope: &Scope) -> Result<Formula> {
        match guard {
            // said by what a variable varies with, and by the cells
            Guard::Disjoint(..) => Ok(Formula::True),
            Guard::NonZero(v) => self.fact(*v, scope, |x| zero(x).not(), false),
            Guard::NonNegative(v) => self.fact(*v, scope, nonnegative, true),
            Guard::Positive(v) => self.fact(*v, scope, positive, true),
            Guard::Negative(v) => self.fact(*v, scope, |x| nonnegative(x).not(), false),
            // about what has no value beside a predicate of 0: no variable is such
            Guard::NoPredicate(_) | Guard::InverseOf(..) => Ok(Formula::True),
            Guard::RootOf(e, x) => {
                let whole = whole(&Exponent::symbol(self.atom(*e, "", scope)?));
                Ok(whole.or(self.fact(*x, scope, nonnegative, true)?))
            }
            Guard::DivisorOf(e, x) => {
                let up = positive_power(&Exponent::symbol(self.atom(*e, "", scope)?));
                Ok(up.or(self.fact(*x, scope, |x| zero(x).not(), false)?))
            }
            Guard::Boolean(v) => {
                let x = Poly::atom(self.atom(*v, "", scope)?);
                let less = self.normal.add(&x, &Poly::number(Rational::MINUS_ONE));
                Ok(zero(&x).or(zero(&less)))
            }
            Guard::Single(v) => {
                let mut same = vec![];
                for d in self.cells(&Axes::Is(*v), scope)? {
                    let (a, b) = (self.binder(d, scope), self.binder(d, scope));
                    same.push(Formula::Same(a.index, b.index).everywhere(&[a, b]))
                }
                Ok(all(same))
            }
            Guard::HasValue(v) => match self.variable(*v)?.kind {
                Kind::Factors => Ok(zero(&Poly::atom(self.atom(*v, "/", scope)?)).not().and(Formula::Holds(self.atom(*v, "'s roots", scope)?))),
                _ => Ok(Formula::True),
            },
        }
    }
    /// A fact about a variable; of a multiset about every member (`signed`: then the members' roots exist).
    fn fact(&mut self, v: Var, scope: &Scope, says: impl Fn(&Poly) -> Formula, signed: bool) -> Result<Formula> {
        match self.variable(v)?.kind {
            Kind::Factors => {
                let (top, bottom) = (Poly::atom(self.atom(v, "", scope)?), Poly::atom(self.atom(v, "/", scope)?));
                let members = if signed { Formula::Holds(self.atom(v, ">=0", scope)?) } else { Formula::True };
                Ok(all([says(&top), says(&bottom), members]))
            }
            Kind::Term | Kind::Coefficient => Ok(says(&Poly::atom(self.atom(v, "", scope)?))),
            Kind::Named(term) => {
                let x = self.term(&term, scope)?;
                Ok(says(&x.real))
            }
            // of the members of a sum nothing follows for it that rows use
            _ => Ok(Formula::True),
        }
    }
}

/// What a factor does to its product.
struct Part {
    /// It is 0, and so is the product.
    zero: Formula,
    /// It is a number.
    fine: Formula,
    infinite: Formula,
    real: Poly,
    improper: Formula,
}
