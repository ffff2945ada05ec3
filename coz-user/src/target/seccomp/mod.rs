//! What a process's seccomp filters say to the system calls that we need in it. Pure: filters are read in
//! [`super::inject`], from a thread that is stopped.

mod calls;
mod filter;

pub use self::{
    calls::{Call, ENTER, PAY, PRIORITY, SHIM},
    filter::{Instruction, allows},
};

/// One filter, as its process installed it.
pub type Filter = Vec<Instruction>;

/// The first of these calls that one of the filters does not allow, whatever else it would do with it.
#[must_use]
pub fn forbidden<'a>(filters: &[Filter], calls: impl IntoIterator<Item = &'a Call>) -> Option<&'a Call> {
    calls.into_iter().find(|call| !filters.iter().all(|filter| allows(filter, &call.data())))
}

#[cfg(test)]
mod tests;
