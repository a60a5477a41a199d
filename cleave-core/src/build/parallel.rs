//! Work on several threads, with results in the order of the items.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Searches recurse over terms; unoptimised frames are large.
const STACK: usize = 64 << 20;

/// `f` of every item, on up to `jobs` threads. A panic in one item is that item's error and no other's.
pub fn map<T: Sync, R: Send>(jobs: usize, items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<Result<R, String>> {
    let results: Vec<Mutex<Option<Result<R, String>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < items.len()) {
            let result = catch_unwind(AssertUnwindSafe(|| f(&items[i]))).map_err(|panic| {
                let text = panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
                text.unwrap_or_else(|| "a panic".into())
            });
            if let Ok(mut slot) = results[i].lock() {
                *slot = Some(result)
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            // a thread that cannot be made is made up for below
            let _ = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
    });
    work();
    let unfinished = || Err("the work was not done".to_string());
    results.into_iter().map(|slot| slot.into_inner().ok().flatten().unwrap_or_else(unfinished)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items_and_a_panic_hurts_one() {
        let items: Vec<usize> = (0..100).collect();
        let results = map(3, &items, |i| if *i == 50 { panic!("at {i}") } else { i * i });
        for (i, r) in results.into_iter().enumerate() {
            assert_eq!(r, if i == 50 { Err("at 50".into()) } else { Ok(i * i) })
        }
    }
}
