//! The one place where events, clock and actions meet. It joins the effectful half (kernel, target, files) to the
//! pure one (plan and machine of the experiments); everything it does itself is to pass things on.

mod acting;
mod attribution;
mod clockwork;
mod debts;
mod ending;
mod family;
mod filtered;
mod fixed;
mod following;
mod guests;
mod health;
mod jits;
mod joining;
mod launcher;
mod load;
mod members;
mod output;
mod overhead;
mod pace;
mod points;
mod probes;
mod progress;
pub mod quota;
mod recorder;
mod registrar;
mod rounds;
mod runtimes;
mod series;
mod serving;
mod session;
mod setup;
mod showing;
mod signals;
mod spaces;
mod spending;
mod startup;
mod subject;
mod unwinding;
mod users;
mod voice;
pub mod watch;

pub use session::run;
