//! The handler's machine code, and the page that it becomes.

mod image {
    include!(concat!(env!("OUT_DIR"), "/injected.rs"));

    /// All of it: for any address, without imports (`build/flat.rs` sees to that).
    pub const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/injected.bin"));
}

#[path = "../../../preload/injected/params.rs"]
mod params;

pub use params::Params;

/// Length of the page in bytes.
pub const PAGE: u64 = 4096;
/// Where the handler is in the page.
pub const HANDLER: u64 = image::HANDLER as u64;
/// Where it returns to.
pub const RESTORER: u64 = image::RESTORER as u64;

/// The page's content.
#[must_use]
pub fn page(params: &Params) -> Vec<u8> {
    let mut page = image::CODE.to_vec();
    // SAFETY: integers without padding, read as bytes for as long as they live.
    let bytes =
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(params).cast::<u8>(), size_of::<Params>()) };
    // What the script puts last begins here.
    page.truncate(image::PARAMS);
    page.extend_from_slice(bytes);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_in_a_page_and_returns_as_unwinders_expect() {
        let page = page(&Params::default());
        assert!(page.len() as u64 <= PAGE);
        let restorer = &page[RESTORER as usize..][..9];
        assert_eq!(restorer, [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], "mov rax, 15; syscall");
        assert_ne!(HANDLER, RESTORER);
    }

    #[test]
    fn the_parameters_are_where_the_code_looks_for_them() {
        let params = Params { maps: [1, 2, 3, 4], inside: 5, old_handler: 6, pid_namespace: 7, _pad: 0 };
        let page = page(&params);
        assert_eq!(page.len(), image::CODE.len(), "they take the place of those that are all zero");
        assert!(image::CODE[image::PARAMS..].iter().all(|&byte| byte == 0));
        assert_eq!(page[image::PARAMS..][..8], 1u64.to_le_bytes());
        assert_eq!(page[image::PARAMS + 48..][..4], 7u32.to_le_bytes());
    }
}
