//! Random terms over three axes whose names collide between binders and free uses: every algorithm that is found for one is equal
//! to it. (The search checks each against the oracle; a wrong rule would show as a rejection.)
use crate::formula::Formula;
use cleave_core::algebra::check::Random;
use cleave_core::algebra::{rules::TABLE, search_with};
use cleave_core::graph::NodeId;
use cleave_core::kernel::Kernel;

const TERMS: u64 = 1000;
const DEPTH: u32 = 4;
/// Terms that need more nodes are left as they are.
const CAP: usize = 250;

fn term(f: &mut Formula, random: &mut Random, depth: u32) -> NodeId {
    let axis = ["N", "M", "K"][random.below(3) as usize];
    if depth == 0 {
        return match random.below(8) {
            0 => f.read("a", "N"),
            1 => f.read("b", "N M"),
            2 => f.read("w", "M K"),
            3 => f.positive("g", "N K"),
            4 => f.positive("u", ""),
            5 => f.at_least_zero(&[("N", -1)], &[("len", "M", 1)], &[], -1),
            6 => f.at_least_zero(&[("K", 1), ("M", -1)], &[], &[], 0),
            _ => f.number("2"),
        };
    }
    let op = random.below(13);
    let x = term(f, random, depth - 1);
    match op {
        0..=2 => f.sum(axis, x),
        3 => f.maximum(axis, x, &[]),
        4 => {
            // over an empty domain -inf, which enters no arithmetic
            let p = f.at_least_zero(&[("N", -1)], &[("len", "M", 1)], &[], -1);
            let m = f.maximum(axis, x, &[p]);
            f.exp(m)
        }
        5 | 6 => {
            let y = term(f, random, depth - 1);
            f.mul(&[x, y])
        }
        7 => {
            let y = term(f, random, depth - 1);
            f.add(x, y)
        }
        8 => {
            let y = term(f, random, depth - 1);
            f.sub(x, y)
        }
        9 => {
            let y = term(f, random, depth - 1);
            let e = f.exp(y);
            f.div(x, e)
        }
        10 => f.power(x, 4),
        11 => f.exp(x),
        _ => {
            let e = f.exp(x);
            let total = f.sum(axis, e);
            f.log(total)
        }
    }
}

/// The same term for the same seed, stored under all three axes.
fn kernel(seed: u64) -> Kernel {
    let mut f = Formula::default();
    f.axes("N M K");
    let mut random = Random(seed);
    let x = term(&mut f, &mut random, DEPTH);
    f.store("y", "N M K", x);
    f.kernel(&format!("random_{seed}"))
}

#[test]
fn a_thousand_random_terms_equal_their_algorithms() {
    let (mut compared, mut capped) = (0, 0);
    for seed in 0..TERMS {
        let kernel = kernel(seed);
        let found = search_with(&kernel, TABLE, CAP);
        assert_eq!(found.rejected, [], "{kernel}");
        compared += found.algorithms.len() - 1;
        capped += !found.statistics.saturated as usize;
    }
    // the test must have something to compare, and the cap must not hide it
    assert!(compared > TERMS as usize / 4, "{compared} algorithms");
    assert!(capped < TERMS as usize / 10, "{capped} terms met the cap");
}
