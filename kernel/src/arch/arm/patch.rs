//! Changing code at run time.

/// Forgets whatever this CPU has fetched ahead: what it executes next is what memory holds now
/// (`membarrier`'s `SYNC_CORE`).
pub fn synchronize() {
    super::sysreg::isb();
}
