//! From a call chain to the line that it counts for.

use aya_ebpf::{EbpfContext, helpers::generated::bpf_get_stack};
use coz_common::abi::{LineCount, MAX_RANGES, PageKey, PendingKey, Process, Stat};

use crate::maps::{CHAIN, LINES, MAX_FRAMES, PAGES, PENDING, count};

/// `BPF_F_USER_STACK` (include/uapi/linux/bpf.h).
const USER_STACK: u64 = 1 << 8;

/// The innermost in-scope line of the current thread's user call chain; 0 where there is none.
#[inline(always)]
pub fn of_chain<C: EbpfContext>(ctx: &C, process: &Process, weight: u64) -> u32 {
    let Some(chain) = CHAIN.get_ptr_mut(0) else { return 0 };
    // SAFETY: the buffer is this CPU's own and as long as is said.
    let bytes = unsafe { bpf_get_stack(ctx.as_ptr(), chain.cast(), size_of::<[u64; MAX_FRAMES]>() as u32, USER_STACK) };
    if bytes < 8 {
        count(Stat::NoStack, 1);
        return 0;
    }
    let frames = (bytes as u64 / 8) as usize;
    for frame in 0..MAX_FRAMES {
        if frame >= frames {
            break;
        }
        // SAFETY: `frame` is below the array's length.
        let ip = unsafe { (*chain)[frame] };
        // A return address points behind the call.
        let ip = if frame == 0 { ip } else { ip.wrapping_sub(1) };
        match of_address(process, ip, weight) {
            Found::Line(line) => return line,
            Found::Pending => return 0,
            Found::Nothing => {}
        }
    }
    count(Stat::OutOfScope, 1);
    0
}

enum Found {
    Line(u32),
    Pending,
    Nothing,
}

#[inline(always)]
fn of_address(process: &Process, ip: u64, weight: u64) -> Found {
    for range in 0..MAX_RANGES {
        if range >= process.range_count as usize {
            break;
        }
        let range = &process.ranges[range];
        if ip < range.start || ip >= range.end {
            continue;
        }
        let address = ip.wrapping_sub(range.bias);
        let key = PageKey { module: range.module, page: (address >> 12) as u32 };
        return match PAGES.get_ptr(&key) {
            // SAFETY: a pointer into the map; the controller never changes a slice that is in use.
            Some(slice) => unsafe { of_page((*slice).first, (*slice).len, (address & 0xFFF) as u32) },
            None => {
                remember(range.module, address, weight);
                Found::Pending
            }
        };
    }
    Found::Nothing
}

/// The last entry that starts at or before the offset.
#[inline(always)]
fn of_page(first: u32, len: u32, offset: u32) -> Found {
    let (mut low, mut high) = (0u32, len);
    // A page has 4096 addresses at most: 13 halvings.
    for _ in 0..13 {
        if high - low <= 1 {
            break;
        }
        let middle = (low + high) / 2;
        match LINES.get(first + middle) {
            Some(entry) if entry.start <= offset => low = middle,
            Some(_) => high = middle,
            None => return Found::Nothing,
        }
    }
    match LINES.get(first + low) {
        Some(entry) if entry.line != 0 => Found::Line(entry.line),
        _ => Found::Nothing,
    }
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
