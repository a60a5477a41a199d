//! Levels of the units of one scope: which loops come first, and where between the loops everything else is computed.
//!
//! A unit of level `l` runs in a loop after everything placed at `l - 1`. Units start as early as possible; clusters (a frame and
//! its members) then move to the placement that streams the fewest elements, ties to the latest: short lifetimes.
use super::build::{Builder, Item, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// The level of each unit, from 1.
pub fn levels(builder: &Builder, scope: &Scope) -> Vec<usize> {
    let units = &scope.units;
    let frame = |i: usize| builder.frame_of(units[i].item).filter(|f| units.iter().any(|u| u.item == Item::Node(*f)));
    let frames: Vec<_> = (0..units.len()).map(frame).collect();
    let tied = |i: usize, j: usize| frames[i].is_some() && frames[i] == frames[j];
    let earliest = |i: usize, level: &[usize]| {
        let ready = ready(builder, scope, level);
        let after = |e: &Item| ready.get(e).copied().unwrap_or(0).saturating_sub(builder.is_own_frame(*e, units[i].item) as usize);
        1 + units[i].edge.iter().map(after).max().unwrap_or(0)
    };
    let mut level = vec![1; units.len()];
    loop {
        let mut next: Vec<usize> = (0..units.len()).map(|i| earliest(i, &level).max(level[i])).collect();
        for i in 0..next.len() {
            next[i] = (0..next.len()).filter(|&j| tied(i, j)).map(|j| next[j]).max().unwrap_or(0).max(next[i])
        }
        if next == level {
            break;
        }
        // a frame's member that waits for what the frame's loop ends with would wait for ever
        if next.iter().any(|l| *l > units.len()) {
            builder.is_cyclic.set(true);
            return level;
        }
        level = next
    }
    let top = level.iter().copied().max().unwrap_or(0);
    let is_valid = |l: &[usize]| (0..l.len()).all(|i| l[i] <= top && earliest(i, l) <= l[i] && (0..l.len()).all(|j| !tied(i, j) || l[i] == l[j]));
    let streamed = |l: &[usize]| {
        let loads = units.iter().zip(l).flat_map(|(u, l)| u.inner.iter().filter(|n| builder.is_load(**n)).map(move |n| (*l, u.dim.0, *n)));
        loads.collect::<BTreeSet<_>>().into_iter().map(|x| builder.weight(x.2)).sum::<f64>()
    };
    let mut best = streamed(&level);
    loop {
        let mut moved = false;
        for i in 0..units.len() {
            for l in (1..=top).rev() {
                let trial: Vec<usize> = (0..units.len()).map(|j| if j == i || tied(i, j) { l } else { level[j] }).collect();
                if !is_valid(&trial) {
                    continue;
                }
                let cost = streamed(&trial);
                if cost < best || cost == best && l > level[i] {
                    (best, level, moved) = (cost, trial, true)
                }
            }
        }
        if !moved {
            return level;
        }
    }
}

/// The level after which each item of the scope can be computed.
fn ready(builder: &Builder, scope: &Scope, level: &[usize]) -> BTreeMap<Item, usize> {
    let mut ready: BTreeMap<Item, usize> = BTreeMap::new();
    for &item in &scope.here {
        let unit = scope.units.iter().position(|u| u.item == item);
        let is_recalled = matches!(item, Item::Node(n) if scope.recall.contains_key(&n));
        let l = match unit {
            Some(i) => level[i],
            None if is_recalled => 0,
            None => builder.needs(item).iter().filter_map(|d| ready.get(d)).copied().max().unwrap_or(0),
        };
        ready.insert(item, l);
    }
    ready
}

/// Where each item of the scope is computed: as late as its users allow. What only the statements after the last loop need (a
/// residual, a table of the epilogue) is then loaded after it, once, however many pieces the loop is cut in.
pub fn places(builder: &Builder, scope: &Scope, level: &[usize]) -> BTreeMap<Item, usize> {
    let mut place = ready(builder, scope, level);
    for &item in scope.here.iter().rev() {
        if scope.units.iter().any(|u| u.item == item) {
            continue;
        }
        let by_units = scope.units.iter().zip(level).filter(|(u, _)| u.edge.contains(&item)).map(|(_, l)| l - 1);
        let is_unit = |other: &Item| scope.units.iter().any(|u| u.item == *other);
        let by_others = scope.here.iter().filter(|o| !is_unit(o) && builder.needs(**o).contains(&item)).map(|o| place[o]);
        if let Some(latest) = by_units.chain(by_others).min() {
            place.insert(item, latest.max(place[&item]));
        }
    }
    place
}
