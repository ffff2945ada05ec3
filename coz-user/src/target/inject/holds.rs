//! Which processes have a thread that is held just now.
//!
//! Whoever ends this process waits for them: a thread that is let go of in the middle of a call of ours would go on there. And
//! whoever started such a process, if that is us, does not ask for its state meanwhile: a stop is told once, to whichever of
//! our threads asks first.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct State {
    held: Vec<i32>,
    closed: bool,
}

static STATE: Mutex<State> = Mutex::new(State { held: Vec::new(), closed: false });
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of them.
#[derive(Debug)]
pub struct Hold(i32);

impl Hold {
    /// A thread of this process. `None`: we are about to end.
    pub fn begin(pid: i32) -> Option<Self> {
        let mut state = state();
        (!state.closed).then(|| {
            state.held.push(pid);
            Self(pid)
        })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = state();
        if let Some(at) = state.held.iter().position(|&pid| pid == self.0) {
            state.held.swap_remove(at);
        }
        CHANGED.notify_all();
    }
}

/// Asks for a process's state, unless a thread of it is held: `None` then. `ask` must not wait.
pub fn unless_held<T>(pid: i32, ask: impl FnOnce() -> T) -> Option<T> {
    let state = state();
    (!state.held.contains(&pid)).then(ask)
}

/// Waits until no thread of any process is held; from now on none is stopped any more. To be called before this process ends, in
/// whatever way.
pub fn finish() {
    let mut state = state();
    state.closed = true;
    while !state.held.is_empty() {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_asks_for_the_state_of_who_is_held() {
        let hold = Hold::begin(-7);
        assert!(hold.is_some());
        assert_eq!(unless_held(-7, || 1), None);
        assert_eq!(unless_held(-8, || 1), Some(1));
        drop(hold);
        assert_eq!(unless_held(-7, || 1), Some(1));
    }
}
