//! Loops whose steps the verifier looks at once. A plain loop would be verified with every way through it, again for
//! each step: far too many paths.
//!
//! `bpf_loop` (kernel 5.17) does it, and the compiler of recent kernels makes a plain call of it. Before that there is
//! `bpf_for_each_map_elem` (5.13), which goes through a map and calls a function for each element: with a map that is there for its
//! length only, it is the same.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_for_each_map_elem, bpf_loop};

use crate::{
    chain::Way,
    maps::{STEPS, has_loops},
};

/// What is done in a step; 1 ends the loop.
pub trait Step {
    /// One step.
    fn step(way: &mut Way) -> i64;
}

/// Does steps until one says that it was the last, [`coz_common::unwind::MAX_FRAMES`] at most. How many were done.
#[inline(always)]
pub fn repeat<S: Step>(way: &mut Way) -> u32 {
    let way: *mut c_void = (&raw mut *way).cast();
    // SAFETY: the callbacks take what is handed over here, which lives until the helper returns.
    let done = unsafe {
        if has_loops() {
            let callback: unsafe extern "C" fn(u32, *mut Way) -> i64 = in_loop::<S>;
            bpf_loop(coz_common::unwind::MAX_FRAMES, callback as *mut c_void, way, 0)
        } else {
            let callback: unsafe extern "C" fn(*mut c_void, *const u32, *mut u32, *mut Way) -> i64 =
                for_each::<S>;
            bpf_for_each_map_elem((&raw const STEPS).cast_mut().cast(), callback as *mut c_void, way, 0)
        }
    };
    done as u32
}

#[inline(never)]
unsafe extern "C" fn in_loop<S: Step>(_: u32, way: *mut Way) -> i64 {
    // SAFETY: `repeat` hands over its own.
    S::step(unsafe { &mut *way })
}

#[inline(never)]
unsafe extern "C" fn for_each<S: Step>(_: *mut c_void, _: *const u32, _: *mut u32, way: *mut Way) -> i64 {
    // SAFETY: as above.
    S::step(unsafe { &mut *way })
}
