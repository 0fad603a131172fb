//! Early entry from the boot protocol; hands over to `crate::boot`.
