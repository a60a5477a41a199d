//! Rules of XLA's algebraic simplifier (algebraic_simplifier.cc), as far as they compute on no index, in our schema; and beyond them what
//! that vocabulary cannot say. The categories are those of TensorRight (Arora et al., POPL 2025), which proves 118 of them.
//! Conditions are the weakest: without any one of them a rule is false (a test).
//!
//! What is about layout alone is no statement here: over named axes a broadcast, a transpose and a reshape to or from extents of 1 are the
//! same term on both sides ([`BY_CONSTRUCTION`]). Slices, pads, concatenations, reversals, iota and convolutions compute on indices and
//! are left to a schema that does.
use super::statement::statement;
use crate::algebra::schema::Row;

/// A category with its rules.
pub struct Category {
    pub name: &'static str,
    /// How many TensorRight proves in its category of this name; 0 where it has none.
    pub tensorright: usize,
    pub rules: &'static [&'static str],
}

const fn category(name: &'static str, tensorright: usize, rules: &'static [&'static str]) -> Category {
    Category { name, tensorright, rules }
}

pub const CATEGORIES: &[Category] = &[
    category("add", 4, &["x + 0 == x", "0 + x == x", "(x + 2) + 3 == x + 5", "x * z + y * z == (x + y) * z", "x + x == 2 * x", "x + (-y) == x - y"]),
    category("subtract", 3, &["x - x == 0", "x - 2 == x + (-2)", "x - 0 == x", "0 - x == -x", "x - (-y) == x + y", "(x - y) + y == x"]),
    category(
        "multiply",
        10,
        &[
            "x * 1 == x",
            "1 * x == x",
            "x * 0 == 0",
            "(x * 2) * (y * 3) == (x * y) * 6",
            "(x * 2) * 3 == x * 6",
            "abs(x) * abs(x) == x * x",
            "exp(x) * exp(y) == exp(x + y)",
            "x * (-1) == -x",
            "(-x) * (-y) == x * y",
            "x * (y + z) == x * y + x * z",
            "rsqrt(x) * rsqrt(x) == recip(x)",
            "sqrt(x) * sqrt(x) == x",
            "abs(x) * abs(y) == abs(x * y)",
        ],
    ),
    category(
        "divide",
        8,
        &[
            "x / 1 == x",
            "x / 4 == x * 0.25",
            "(w / x) / (y / z) == (w * z) / (x * y)",
            "x / (y / z) == (x * z) / y",
            "(x / y) / z == x / (y * z)",
            "x / x == 1, where x != 0",
            "x / sqrt(y) == x * rsqrt(y)",
            "x / exp(y) == x * exp(-y)",
            "0 / x == 0",
        ],
    ),
    category(
        "max and min",
        2,
        &[
            "max(x, x) == x",
            "min(x, x) == x",
            "max(x, y) == max(y, x)",
            "max(max(x, y), y) == max(x, y)",
            "min(max(x, y), y) == y",
            "max(x + z, y + z) == max(x, y) + z",
            "max(x * z, y * z) == max(x, y) * z, where z > 0",
            "max(exp(x), exp(y)) == exp(max(x, y))",
        ],
    ),
    category("not and negate", 2, &["-(-x) == x", "not(not(p)) == p", "-(x - y) == y - x"]),
    category(
        "clamp",
        3,
        &[
            "clamp(x, clamp(x, z, y), y) == clamp(x, z, y)",
            "clamp(0, x, 1) == max(min(x, 1), 0)",
            "clamp(x, z, x) == x",
            "min(max(x, 2), 3) == max(min(x, 3), 2)",
        ],
    ),
    category(
        "compare",
        6,
        &[
            "lt(x, x) == 0",
            "gt(x, x) == 0",
            "le(x, x) == 1",
            "ge(x, x) == 1",
            "eq(x, x) == 1",
            "ne(x, x) == 0",
            "gt(max(x, y), y) == gt(x, y)",
            "ge(abs(x), 0) == 1",
            "lt(abs(x), 0) == 0",
            "not(lt(x, y)) == ge(x, y)",
        ],
    ),
    category(
        "logical",
        11,
        &[
            "or(p, 1) == 1",
            "or(1, p) == 1",
            "or(p, 0) == p",
            "or(0, p) == p",
            "and(p, 1) == p",
            "and(1, p) == p",
            "and(p, 0) == 0",
            "and(0, p) == 0",
            "and(p, p) == p, where truth(p)",
            "or(p, p) == p, where truth(p)",
            "and(p, not(p)) == 0, where truth(p)",
            "or(p, not(p)) == 1, where truth(p)",
            "not(and(p, q)) == or(not(p), not(q))",
        ],
    ),
    category(
        "select",
        4,
        &[
            "select(p, x, x) == x",
            "select(1, x, y) == x",
            "select(0, x, y) == y",
            "select(not(p), x, y) == select(p, y, x)",
            "select(p, 1, 0) == p",
            "select(p, x, y) + z == select(p, x + z, y + z)",
            "select(ge(x, y), x, y) == max(x, y)",
        ],
    ),
    category(
        "broadcast",
        8,
        &[
            "max::<A>(x) == x, where independent::<A>(x)",
            "sum::<A>(x) == extent::<A>() * x, where independent::<A>(x)",
            "mean::<A>(x) == x, where independent::<A>(x)",
            "sum::<A>(1) == extent::<A>()",
        ],
    ),
    category(
        "reduce",
        8,
        &[
            "sum::<A>(x) * sum::<B>(y) == sum::<A, B>(x * y), where disjoint::<A, B>(), independent::<B>(x), independent::<A>(y)",
            "c * sum::<A>(x) == sum::<A>(c * x), where independent::<A>(c)",
            "sum::<A>(sum::<B>(x)) == sum::<A, B>(x), where disjoint::<A, B>()",
            "sum::<A>(sum::<B>(x)) == sum::<B>(sum::<A>(x))",
            "sum::<A>(x) == x, where single::<A>()",
            "max::<A>(x) == x, where single::<A>()",
            "max::<A>(max::<B>(x)) == max::<A, B>(x)",
            "sum::<A>(0) == 0",
            "sum::<A>(-x) == -sum::<A>(x)",
        ],
    ),
    category(
        "dot",
        6,
        &[
            "sum::<A>(x * y) == sum::<A>(y * x)",
            "sum::<A>(x * sum::<B>(y * z)) == sum::<B>(sum::<A>(x * y) * z), where independent::<B>(x), independent::<A>(z)",
            "sum::<A>((c * x) * y) == c * sum::<A>(x * y), where independent::<A>(c)",
            "sum::<A>(x * y) == x * sum::<A>(y), where independent::<A>(x)",
            "sum::<A>((x + y) * z) == sum::<A>(x * z) + sum::<A>(y * z)",
            "sum::<A>(x * 0) == 0",
        ],
    ),
    // ---- what an abstraction over elementwise operators cannot say --------------------------------------------------
    category(
        "linearity of sums",
        0,
        &[
            "sum::<A>(x + y) == sum::<A>(x) + sum::<A>(y)",
            "sum::<A>(x - y) == sum::<A>(x) - sum::<A>(y)",
            "sum::<A>(x - mean::<A>(x)) == 0",
            "sum::<A>(square(x - mean::<A>(x))) == sum::<A>(square(x)) - square(sum::<A>(x)) / extent::<A>()",
            "sum::<A>(x / c) == sum::<A>(x) / c, where independent::<A>(c)",
            "square(sum::<A>(x)) == sum::<A>(x * sum::<A>(x))",
        ],
    ),
    category(
        "maxima along axes",
        0,
        &[
            "max::<A>(x + c) == max::<A>(x) + c, where independent::<A>(c)",
            "max::<A>(c * x) == c * max::<A>(x), where c > 0, independent::<A>(c)",
            "max::<A>(exp(x)) == exp(max::<A>(x))",
            "max::<A>(max::<B>(x)) == max::<B>(max::<A>(x))",
            "max::<A>(x / c) == max::<A>(x) / c, where c > 0, independent::<A>(c)",
        ],
    ),
    category(
        "softmax and log-sum-exp",
        0,
        &[
            "softmax::<A>(x + c) == softmax::<A>(x), where independent::<A>(c)",
            "softmax::<A>(x - max::<A>(x)) == softmax::<A>(x)",
            "sum::<A>(softmax::<A>(x)) == 1",
            "sum::<A>(softmax::<A>(x) * y) == sum::<A>(exp(x) * y) / sum::<A>(exp(x))",
            "logsumexp::<A>(x + c) == logsumexp::<A>(x) + c, where independent::<A>(c)",
            "logsumexp::<A>(x - max::<A>(x)) + max::<A>(x) == logsumexp::<A>(x)",
            "log(softmax::<A>(x)) == x - logsumexp::<A>(x)",
            "exp(logsumexp::<A>(x)) == sum::<A>(exp(x))",
            "exp(x - logsumexp::<A>(x)) == softmax::<A>(x)",
            "logsumexp::<A>(logsumexp::<B>(x)) == logsumexp::<A, B>(x), where disjoint::<A, B>()",
            "sigmoid(-x) == 1 - sigmoid(x)",
            "log(sigmoid(x)) == -log(1 + exp(-x))",
        ],
    ),
    category(
        "split and merge of axes",
        0,
        &[
            "sum::<A, B>(x) == sum::<A>(sum::<B>(x))",
            "max::<A, B>(x) == max::<A>(max::<B>(x))",
            "sum::<A, B>(x * y) == sum::<A>(x * sum::<B>(y)), where independent::<B>(x)",
            "sum::<A, B>(exp(x)) == sum::<A>(sum::<B>(exp(x)))",
        ],
    ),
];

/// XLA's rules that are one term on both sides here.
pub const BY_CONSTRUCTION: &[&str] = &[
    "broadcast of a broadcast",
    "an elementwise operation of two broadcasts",
    "a broadcast to the same shape",
    "transpose of a transpose",
    "transpose of a broadcast scalar",
    "a transpose that moves nothing",
    "reshape to and from axes of extent 1",
    "reshape of a reshape",
    "a dot whose operands are transposed",
    "a dot that contracts nothing",
    "a reduction of a transpose",
    "a reduction over no axes",
];

/// Every rule: its category and its row.
///
/// # Errors
/// If one of the texts states nothing.
pub fn rows() -> Result<Vec<(&'static str, &'static str, Row)>, String> {
    let of = |c: &'static Category| c.rules.iter().map(move |text| Ok((c.name, *text, statement(text, text)?)));
    CATEGORIES.iter().flat_map(of).collect()
}
