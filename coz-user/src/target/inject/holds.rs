//! How many threads are held just now. Whoever ends this process waits for them: a thread that is let go of in the middle of a
//! call of ours would go on there.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct State {
    held: u32,
    closed: bool,
}

static STATE: Mutex<State> = Mutex::new(State { held: 0, closed: false });
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of them.
#[derive(Debug)]
pub struct Hold(());

impl Hold {
    /// `None`: this process is about to end.
    pub fn begin() -> Option<Self> {
        let mut state = state();
        (!state.closed).then(|| {
            state.held += 1;
            Self(())
        })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        state().held -= 1;
        CHANGED.notify_all();
    }
}

/// Waits until no thread of any process is held; from now on none is stopped any more. To be called before this process ends, in
/// whatever way.
pub fn finish() {
    let mut state = state();
    state.closed = true;
    while state.held > 0 {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}
