//! Memory that will be needed soon.
#![expect(unsafe_code, reason = "the instruction takes an address")]

/// Has the processor bring a value closer, all of it, and does not wait for it.
#[inline]
pub fn prefetch<T>(value: &T) {
    let begin: *const T = value;
    for offset in (0..size_of::<T>()).step_by(LINE) {
        prefetch_line(begin.cast::<u8>().wrapping_add(offset));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    // SAFETY: a hint reads nothing, and no address is wrong for it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn prefetch_line(address: *const u8) {
    // SAFETY: a hint reads nothing, and no address is wrong for it.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
const fn prefetch_line(_: *const u8) {}

/// Bytes of a line of a cache.
const LINE: usize = 64;
