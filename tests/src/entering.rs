//! Maps for processes that are entered, made of files without a name: the code that is put into them cannot tell.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use coz_common::abi::{
    ABI_VERSION, Control, CounterSlot, Global, KernelSlot, MAX_COUNTERS, MAX_SLOTS, SLOT_PROBES, STATE_IDLE,
    STATE_RUNNING, TargetSlot, slot_key, slot_place,
};
use coz_user::kernel::control::now;

use crate::table::Table;

/// The experiment's number.
const EPOCH: u32 = 7;

/// The five maps.
#[derive(Debug)]
pub struct Files {
    control: Table<Control>,
    global: Table<Global>,
    slots: Table<KernelSlot>,
    payments: Table<TargetSlot>,
    counters: Table<CounterSlot>,
}

impl Default for Files {
    fn default() -> Self {
        let files = Self {
            control: Table::new(c"coz-bpf-control", 1),
            global: Table::new(c"global", 1),
            slots: Table::new(c"slots", MAX_SLOTS as usize),
            payments: Table::new(c"payments", MAX_SLOTS as usize),
            counters: Table::new(c"counters", MAX_COUNTERS as usize),
        };
        files.control.change(0, |control| {
            control.abi_version = ABI_VERSION;
            control.epoch = EPOCH;
        });
        files
    }
}

impl Files {
    /// To be handed over.
    #[must_use]
    pub fn maps(&self) -> [Arc<OwnedFd>; 5] {
        let Self { control, global, slots, payments, counters } = self;
        [control.file(), global.file(), slots.file(), payments.file(), counters.file()]
    }

    /// An experiment runs, in which these threads owe `debt` nanoseconds, and a signal is pending for each.
    ///
    /// # Panics
    /// When there is no room.
    pub fn owe(&self, namespace: u32, threads: &[i32], debt: u64) {
        for &tid in threads {
            let tid = tid.cast_unsigned();
            let key = slot_key(namespace, tid);
            let place = (0..SLOT_PROBES)
                .map(|probe| slot_place(key, probe) as usize)
                .find(|&place| [0, key].contains(&self.slots.read(place).key))
                .expect("there is room");
            let paid_seen = self.payments.read(place).paid;
            self.slots.change(place, |slot| {
                let sent = slot.sent + 1;
                *slot = KernelSlot { key, tid, epoch: EPOCH, sent, paid_seen, ..KernelSlot::default() };
            });
        }
        self.global.change(0, |global| global.required = u64::from(EPOCH) << 48 | debt);
        self.control.change(0, |control| {
            control.deadline_ns = now().0 + 60_000_000_000;
            control.state = STATE_RUNNING;
        });
    }

    /// The experiment is over.
    pub fn rest(&self) {
        self.control.change(0, |control| control.state = STATE_IDLE);
    }

    /// All that was paid, by whomever, nanoseconds.
    #[must_use]
    pub fn paid(&self) -> u64 {
        (0..MAX_SLOTS as usize).map(|i| self.payments.read(i).paid).sum()
    }

    /// How many threads have answered all that they were sent, of those that have a slot.
    #[must_use]
    pub fn answered(&self) -> (usize, usize) {
        let slots = (0..MAX_SLOTS as usize).filter(|&i| self.slots.read(i).key != 0);
        slots.fold((0, 0), |(done, all), i| {
            (done + usize::from(self.slots.read(i).sent == self.payments.read(i).acked), all + 1)
        })
    }
}
