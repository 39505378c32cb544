//! Memory limits of an isolate: its heap, and the buffers beside it.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deno_core::v8;

/// Allocates array buffers up to a budget; beyond it scripts see a `RangeError`.
struct Budget {
    used_bytes: AtomicUsize,
    max_bytes: usize,
}

impl Budget {
    fn take(&self, bytes: usize) -> bool {
        let before = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.max_bytes {
            return true;
        }
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        false
    }
}

unsafe extern "C" fn allocate(budget: &Budget, bytes: usize) -> *mut c_void {
    if !budget.take(bytes) {
        return std::ptr::null_mut();
    }
    // SAFETY: plain C allocation; at least one byte, so that the result is unique.
    unsafe { libc::calloc(bytes.max(1), 1) }
}

unsafe extern "C" fn allocate_uninitialized(budget: &Budget, bytes: usize) -> *mut c_void {
    if !budget.take(bytes) {
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    unsafe { libc::malloc(bytes.max(1)) }
}

unsafe extern "C" fn free(budget: &Budget, data: *mut c_void, bytes: usize) {
    budget.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    // SAFETY: `data` came from `allocate` or `allocate_uninitialized`.
    unsafe { libc::free(data) }
}

unsafe extern "C" fn drop_budget(budget: *const Budget) {
    // SAFETY: this is the reference that `create_params` gave to V8.
    drop(unsafe { Arc::from_raw(budget) });
}

static VTABLE: v8::RustAllocatorVtable<Budget> = v8::RustAllocatorVtable {
    allocate,
    allocate_uninitialized,
    free,
    drop: drop_budget,
};

/// Parameters of an isolate whose heap, and whose array buffers, take at most `max_bytes` each.
pub fn create_params(max_bytes: usize) -> v8::CreateParams {
    let budget = Arc::into_raw(Arc::new(Budget {
        used_bytes: AtomicUsize::new(0),
        max_bytes,
    }));
    // SAFETY: the pointer is an `Arc`'s, which the table's `drop` gives back.
    let allocator = unsafe { v8::new_rust_allocator(budget, &VTABLE) };
    v8::CreateParams::default()
        .heap_limits(0, max_bytes)
        .array_buffer_allocator(allocator.make_shared())
}
