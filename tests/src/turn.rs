//! Who has the machine for itself. Most of what a root test does is to let a program run for some seconds: tests that judge no time
//! and count nothing that others have a part in do that side by side. Within a file, for files are run one after the other.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// For a test that judges time, or delays that somebody must pay, or what the kernel holds: nobody else until this is dropped.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    // Another test that failed has left nothing half done here.
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// For every other test of a file that has such ones.
pub fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}
