//! What runs before `main`, once in each program: everything that this library does uncalled.

use core::ffi::c_int;

use coz_common::abi::HELLO_REGISTER;

use crate::{action, env, handler, maps, mask, next, socket, stack};

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = start;

extern "C" fn start() {
    // SAFETY: the dynamic linker runs this before `main`, with one thread.
    let Some(invitation) = (unsafe { env::take_invitation() }) else { return };
    // SAFETY: as above, and only here.
    unsafe { socket::remember(&invitation) };
    next::resolve();
    stack::measure();
    let Some(signal) = register() else { return };
    // In this order: a handler that runs finds the maps, and the signal is let through last.
    maps::activate(signal);
    if action::install(signal) {
        mask::adopt(signal);
    }
}

/// Gets the maps; the signal to listen to. The handler is not in place yet: the kernel side looks for it
/// before each signal, so an address told in advance does no harm.
fn register() -> Option<c_int> {
    let address = handler::handle as *const () as u64;
    let reply = socket::ask(HELLO_REGISTER, address)?;
    let signal = c_int::try_from(reply.welcome.signal).ok().filter(|s| (1..=64).contains(s))?;
    let [Some(a), Some(b), Some(c), Some(d), Some(e)] = reply.fds else { return None };
    maps::attach(&[a, b, c, d, e], reply.welcome.pid_namespace).then_some(signal)
}
