//! From a call chain to the line that it counts for.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext,
    helpers::generated::{bpf_get_stack, bpf_loop},
};
use coz_common::{
    abi::{LineCount, MAX_RANGES, PageKey, PendingKey, Process, Stat},
    lookup::{SEARCH_STEPS, Search},
};

use crate::maps::{CHAIN, LINES, MAX_FRAMES, PAGES, PENDING, count};

/// `BPF_F_USER_STACK` (include/uapi/linux/bpf.h).
const USER_STACK: u64 = 1 << 8;

/// A call chain on its way from the innermost frame outwards.
#[repr(C)]
struct Walk {
    chain: *const [u64; MAX_FRAMES],
    process: *const Process,
    frames: u64,
    weight: u64,
    found: u64,
}

/// `Walk::found`: nothing in scope.
const NOTHING: u64 = 0;
/// `Walk::found`: in scope, but the page is not in the table yet. Lines come after it, as `line << 1`.
const UNKNOWN_PAGE: u64 = 1;

/// The innermost in-scope line of the current thread's user call chain; 0 where there is none.
#[inline(always)]
pub fn of_chain<C: EbpfContext>(ctx: &C, process: &Process, weight: u64) -> u32 {
    let Some(chain) = CHAIN.get_ptr_mut(0) else { return 0 };
    // SAFETY: the buffer is this CPU's own and as long as is said.
    let bytes = unsafe {
        bpf_get_stack(ctx.as_ptr(), chain.cast(), size_of::<[u64; MAX_FRAMES]>() as u32, USER_STACK)
    };
    if bytes < 8 {
        count(Stat::NoStack, 1);
        return 0;
    }
    let mut walk = Walk { chain, process, frames: bytes as u64 / 8, weight, found: NOTHING };
    let callback: unsafe extern "C" fn(u32, *mut Walk) -> i64 = visit_frame;
    // A plain loop would be verified frame by frame, each with every way through the search: far too many paths.
    // SAFETY: the callback takes what is handed over here, which lives until the helper returns.
    unsafe { bpf_loop(MAX_FRAMES as u32, callback as *mut c_void, (&raw mut walk).cast(), 0) };
    match walk.found {
        NOTHING => {
            count(Stat::OutOfScope, 1);
            0
        }
        UNKNOWN_PAGE => 0,
        line => (line >> 1) as u32,
    }
}

/// One frame; 1 ends the walk.
#[inline(never)]
unsafe extern "C" fn visit_frame(index: u32, walk: *mut Walk) -> i64 {
    // SAFETY: `of_chain` hands over its own `Walk`.
    let walk = unsafe { &mut *walk };
    let index = index as usize;
    if index as u64 >= walk.frames || index >= MAX_FRAMES {
        return 1;
    }
    // SAFETY: `index` is below the array's length; pointers into maps.
    let (ip, process) = unsafe { ((*walk.chain)[index], &*walk.process) };
    // A return address points behind the call.
    let ip = if index == 0 { ip } else { ip.wrapping_sub(1) };

    let (mut module, mut bias) = (0, 0);
    for range in 0..MAX_RANGES {
        if range >= process.range_count as usize {
            break;
        }
        let range = &process.ranges[range];
        if ip >= range.start && ip < range.end {
            (module, bias) = (range.module, range.bias);
            break;
        }
    }
    if module == 0 {
        return 0;
    }
    let address = ip.wrapping_sub(bias);
    let Some(slice) = PAGES.get_ptr(&PageKey { module, page: (address >> 12) as u32 }) else {
        remember(module, address, walk.weight);
        walk.found = UNKNOWN_PAGE;
        return 1;
    };
    // SAFETY: a pointer into the map; the controller never changes a slice that is in use.
    let (first, len) = unsafe { ((*slice).first, (*slice).len) };
    let mut page = Page { search: Search::new(len, (address & 0xFFF) as u32), first };
    let callback: unsafe extern "C" fn(u32, *mut Page) -> i64 = search_step;
    // SAFETY: the callback takes what is handed over here, which lives until the helper returns.
    unsafe { bpf_loop(SEARCH_STEPS, callback as *mut c_void, (&raw mut page).cast(), 0) };
    let line = page.search.line();
    walk.found = u64::from(line.0) << 1;
    i64::from(line.is_some())
}

/// A search within the entries of a page.
#[repr(C)]
struct Page {
    search: Search,
    first: u32,
}

/// One step of it; 1 ends it.
#[inline(never)]
unsafe extern "C" fn search_step(_: u32, page: *mut Page) -> i64 {
    // SAFETY: `visit_frame` hands over its own `Page`.
    let page = unsafe { &mut *page };
    let first = page.first;
    i64::from(!page.search.step(|index| LINES.get(first.wrapping_add(index)).copied()))
}

#[inline(always)]
fn remember(module: u32, address: u64, weight: u64) {
    count(Stat::Pending, 1);
    let key = PendingKey { module, _pad: 0, address };
    if let Some(seen) = PENDING.get_ptr_mut(&key) {
        // SAFETY: a pointer into the map; two CPUs at once may lose one of these counts, which the controller
        // reads a few times a second until the page is known.
        unsafe {
            (*seen).samples += 1;
            (*seen).weight_ns += weight;
        }
        return;
    }
    if PENDING.insert(&key, &LineCount { samples: 1, weight_ns: weight }, 0).is_err() {
        count(Stat::PendingLost, 1);
    }
}
