//! Probes on a program's code. Not the loader library's own: that one knows no semaphores.

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::OnceLock,
};

use anyhow::{Result, anyhow};

/// Where a probe goes.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// The file.
    pub file: &'a Path,
    /// Where in it, bytes.
    pub offset: u64,
    /// At the return of the function that begins there.
    pub at_return: bool,
    /// Where in the file a counter stands that the kernel keeps above zero as long as the probe is there (a USDT
    /// semaphore).
    pub semaphore: Option<u64>,
}

/// `struct perf_event_attr` up to what a probe needs (include/uapi/linux/perf_event.h, PERF_ATTR_SIZE_VER1).
#[repr(C)]
#[derive(Default)]
struct EventAttr {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    path: u64,
    offset: u64,
}

/// `union bpf_attr` for `BPF_LINK_CREATE` of a perf event.
#[repr(C)]
struct LinkAttr {
    program: u32,
    event: u32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PERF_EVENT: u32 = 41;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// `format/retprobe` and `format/ref_ctr_offset` of the kernel's uprobe events, the same on all kernels.
const RETURN_BIT: u64 = 1;
const SEMAPHORE_SHIFT: u32 = 32;

/// Puts a probe there, in every process that has the file mapped or will; it is gone when the link is closed.
///
/// # Errors
/// Where the kernel refuses it.
pub fn attach(program: BorrowedFd<'_>, spot: &Spot<'_>, cookie: u64) -> Result<OwnedFd> {
    try_attach(program, spot, cookie).map_err(|error| {
        let way_out = match error.kind() {
            io::ErrorKind::PermissionDenied => "; it takes root, or CAP_SYS_ADMIN on kernel 6.16 and later",
            _ => "",
        };
        let (offset, file) = (spot.offset, spot.file.display());
        anyhow!("cannot put a probe at offset {offset:#x} of {file}: {error}{way_out}")
    })
}

/// Whether the kernel lets us put probes into programs. Asked with a place that can not be, so that nothing is made: an answer about
/// the place means yes.
///
/// # Errors
/// It does not.
pub fn allowed() -> io::Result<()> {
    let nowhere = Spot { file: Path::new(""), offset: 0, at_return: false, semaphore: None };
    match event(&nowhere, -1, 0) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

fn try_attach(program: BorrowedFd<'_>, spot: &Spot<'_>, cookie: u64) -> io::Result<OwnedFd> {
    // All processes (-1), which takes one CPU's number.
    let event = event(spot, -1, 0)?;
    let attr = LinkAttr {
        program: program.as_raw_fd() as u32,
        event: event.as_raw_fd() as u32,
        attach_type: BPF_PERF_EVENT,
        flags: 0,
        cookie,
    };
    // SAFETY: the attribute outlives the call.
    owned(unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const attr, size_of::<LinkAttr>()) })
}

/// The kernel's event for a place, of a thread (-1: all) on a CPU (-1: any; not both).
pub(super) fn event(spot: &Spot<'_>, thread: i32, cpu: i32) -> io::Result<OwnedFd> {
    let path = CString::new(spot.file.as_os_str().as_bytes())?;
    let semaphore = spot.semaphore.unwrap_or(0);
    if semaphore > u64::from(u32::MAX) {
        return Err(io::Error::other("its semaphore lies beyond the first 4 GiB of the file"));
    }
    let attr = EventAttr {
        kind: event_type()?,
        size: size_of::<EventAttr>() as u32,
        config: semaphore << SEMAPHORE_SHIFT | if spot.at_return { RETURN_BIT } else { 0 },
        path: path.as_ptr() as u64,
        offset: spot.offset,
        ..EventAttr::default()
    };
    // SAFETY: the attribute and the path that it names outlive the call.
    owned(unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, thread, cpu, -1, PERF_FLAG_FD_CLOEXEC)
    })
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// The number of the kernel's uprobe events.
fn event_type() -> io::Result<u32> {
    static TYPE: OnceLock<u32> = OnceLock::new();
    if let Some(kind) = TYPE.get() {
        return Ok(*kind);
    }
    let text = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let kind = text.trim().parse().map_err(|_| io::Error::other("the kernel has no uprobe events"))?;
    Ok(*TYPE.get_or_init(|| kind))
}
