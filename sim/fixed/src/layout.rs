//! The numbers and structures of the headers in `sim/emulator/bpf`, which say what each field means.

#![allow(dead_code)]

/// Structures of integers in C's layout.
///
/// # Safety
/// Every pattern of bits is a value, and no byte is padding.
pub unsafe trait Plain: Copy {
    fn bytes(&self) -> &[u8] {
        // SAFETY: no byte is padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

fn zeros<T: Plain>() -> T {
    // SAFETY: zeros are a value.
    unsafe { std::mem::zeroed() }
}

include!(concat!(env!("OUT_DIR"), "/layout.rs"));
