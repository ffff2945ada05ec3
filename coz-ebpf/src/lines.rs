//! From an address to its line.

use coz_common::{
    abi::{LineCount, PageKey, PendingKey, Stat},
    lookup::Search,
};

use crate::{
    chain::Way,
    maps::{LINES, PAGES, PENDING, count},
    steps::{self, Step},
};

/// What is known of an address in scope.
pub enum Found {
    /// Its line; 0: none.
    Line(u32),
    /// Its page is not in the table yet: noted.
    Later,
}

/// The line of a module-relative address.
#[inline(always)]
pub fn of(way: &mut Way, module: u32, address: u64) -> Found {
    let Some(slice) = PAGES.get_ptr(&PageKey { module, page: (address >> 12) as u32 }) else {
        remember(module, address, way.walk().weight);
        return Found::Later;
    };
    // SAFETY: a pointer into the map; the controller never changes a slice that is in use.
    let (first, len) = unsafe { ((*slice).first, (*slice).len) };
    let walk = way.walk();
    walk.first = first;
    walk.line = Search::new(len, (address & 0xFFF) as u32);
    steps::repeat::<InPage>(way);
    Found::Line(way.walk().line.line().0)
}

/// The search within the entries of a page.
struct InPage;

impl Step for InPage {
    #[inline(always)]
    fn step(way: &mut Way) -> i64 {
        let walk = way.walk();
        let first = walk.first;
        i64::from(!walk.line.step(|index| LINES.get(first.wrapping_add(index)).copied()))
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
