//! Work shared by threads of rayon's pool. In: a function that takes pieces of the work until none is left. Out: all of it is done.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// No more threads may come in.
const CLOSED: u32 = 1 << 31;
/// Looks at who is still inside before the time slice is given up.
const LOOKS: usize = 200;

struct Room {
    work: *const (dyn Fn() + Sync),
    /// How many threads are inside, and [`CLOSED`].
    state: AtomicU32,
}

// SAFETY: `work` is `Sync`, and read only by threads inside, for which its owner waits
unsafe impl Send for Room {}
unsafe impl Sync for Room {}

impl Room {
    fn enter(&self) {
        let open = |state: u32| (state & CLOSED == 0).then_some(state + 1);
        if self.state.try_update(Ordering::Acquire, Ordering::Relaxed, open).is_ok() {
            // SAFETY: the owner of `work` waits until this thread has left
            unsafe { (*self.work)() }
            self.state.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Closes the room and waits until it is empty, also when the work has panicked.
struct Close<'a>(&'a Room);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_or(CLOSED, Ordering::AcqRel);
        let mut looks = 0;
        while self.0.state.load(Ordering::Acquire) != CLOSED {
            looks += 1;
            if looks % LOOKS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Runs `work` on this thread and on up to `others` of the pool. One that comes when the work is done is not waited for: on a busy machine it may
/// come late.
pub fn together(others: usize, work: &(dyn Fn() + Sync)) {
    if others == 0 {
        return work();
    }
    // SAFETY: only the lifetime changes; see `Room::enter`
    let work_for_all: *const (dyn Fn() + Sync + 'static) = unsafe { std::mem::transmute::<*const (dyn Fn() + Sync), _>(work) };
    let room = Arc::new(Room { work: work_for_all, state: AtomicU32::new(0) });
    for _ in 0..others {
        let room = room.clone();
        rayon::spawn(move || room.enter())
    }
    let _close = Close(&room);
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_piece_of_the_work_is_done_once() {
        for others in [0, 1, 7] {
            let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            together(others, &|| {
                while next.fetch_add(1, Ordering::Relaxed) < 1000 {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert_eq!(done.load(Ordering::Relaxed), 1000)
        }
    }
}
